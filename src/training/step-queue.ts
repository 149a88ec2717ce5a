import type { z } from 'zod';
import type { JsonValue } from '../environment/index.ts';
import type { ModelHandle } from '../model/index.ts';
import type { RolloutCounts } from '../rollout/index.ts';
import { groupsThatStay } from './kept-groups.ts';
import type { RunContext } from './run-context.ts';
import type { RunDirectory } from './run-directory.ts';
import { addCounts, countsOf } from './run-ending.ts';
import { stepName } from './run-layout.ts';
import type { RunState } from './run-state.ts';
import { type Draw, ScenarioDraws } from './scenario-draws.ts';
import { StepTask } from './step-task.ts';
import { trainDefaults } from './train-defaults.ts';
import type { TrainSettings } from './train-options.ts';

type Standing = { model: ModelHandle; state: RunState };

/**
 * The steps that are admitted and not finished, in order. A step is admitted as soon as the model exists that it may
 * sample from: that of `maxStaleness` steps before it. So no group is older than that when it trains, and which one
 * samples from which model does not depend on the time that anything takes.
 */
export class StepQueue<Schema extends z.ZodType, Outcome> {
  readonly #draws: ScenarioDraws<Schema, Outcome>;
  readonly #steps: number;
  readonly #maxStaleness: number;
  #tasks: StepTask<Schema, Outcome>[] = [];
  #sourceHasEnded = false;

  constructor(settings: TrainSettings<Schema, Outcome>) {
    const { environment, scenarios, groupsPerStep, steps } = settings;
    const { seed = trainDefaults.seed, maxStaleness = trainDefaults.maxStaleness } = settings;
    const { scenarioTimeoutMs: timeoutMs } = settings;
    this.#draws = new ScenarioDraws({ environment, scenarios, seed, count: groupsPerStep, timeoutMs });
    this.#steps = steps;
    this.#maxStaleness = maxStaleness;
  }

  /** The step whose turn it is to train; undefined where the source has ended. */
  get next(): StepTask<Schema, Outcome> | undefined {
    return this.#tasks[0];
  }

  /** Steps that have drawn their scenarios and are not finished. */
  get draws(): Draw[] {
    return this.#draws.open;
  }

  /** Where the source of scenarios stands. */
  position(): JsonValue {
    return this.#draws.position();
  }

  /** Draws again what was in flight when the run was interrupted, and goes on with the groups that had not ended, or in which nothing completed. */
  async takeUp(context: RunContext<Schema, Outcome>, standing: Standing): Promise<void> {
    const { draws, position } = standing.state;
    const drawn = await this.#draws.resume(draws, position, context.signal);
    for (const [index, { step }] of draws.entries())
      await this.#begin(context, standing, step, drawn[index] ?? []);
  }

  /** @param note Writes down what was drawn, before its rollouts begin. */
  async admit(
    context: RunContext<Schema, Outcome>,
    standing: Standing,
    note: () => Promise<void>,
  ): Promise<void> {
    const { finishedSteps } = standing.state;
    const last = Math.min(finishedSteps + this.#maxStaleness, this.#steps - 1);
    while (!this.#sourceHasEnded) {
      const step = finishedSteps + this.#tasks.length;
      if (step > last) return;
      const scenarios = await this.#draws.draw(step, context.signal);
      this.#sourceHasEnded = scenarios.length === 0;
      if (this.#sourceHasEnded) return;
      await note();
      await this.#begin(context, standing, step, scenarios);
    }
  }

  /** A step has trained: the source hears what came of it. */
  async settle(task: StepTask<Schema, Outcome>): Promise<void> {
    const { groups } = await task.gathered;
    const results = task.scenarios.map(({ key }, index) => ({
      key,
      rewards: groups[index]?.trajectories.flatMap(({ reward }) => reward ?? []) ?? [],
    }));
    this.#draws.settle(task.step, results);
    this.#tasks = this.#tasks.filter((other) => other !== task);
  }

  /** The run has ended, and its signal with it: writes down what was in flight, and gives the counts of that. */
  async cancelPending(directory: RunDirectory): Promise<RolloutCounts> {
    const counts = countsOf([]);
    for (const task of this.#tasks) {
      // What could not be kept on disk has ended the run already.
      const rollouts = await task.cancelPending().catch(() => undefined);
      if (!rollouts) continue;
      addCounts(counts, rollouts.counts);
      await directory.writeTrajectories(stepName(task.step), rollouts.groups).catch(() => undefined);
    }
    return counts;
  }

  async #begin(
    context: RunContext<Schema, Outcome>,
    { model, state }: Standing,
    step: number,
    scenarios: StepTask<Schema, Outcome>['scenarios'],
  ): Promise<void> {
    const sampled = state.policySteps[Math.max(0, step - this.#maxStaleness)];
    if (sampled === undefined) throw new RangeError(`Step ${step} is admitted before its model is made.`);
    const found = await context.directory.keptGroups(step);
    const isNext = step === state.finishedSteps;
    const kept = groupsThatStay(found, { count: scenarios.length, isNext });
    if (kept.size < found.size) await context.directory.keepOnly(step, kept.values());
    this.#tasks.push(new StepTask(context, { step, model: model.at(sampled), scenarios, kept }));
  }
}
