import type { z } from 'zod';
import type { JsonValue } from '../environment/index.ts';
import type { ModelHandle } from '../model/index.ts';
import type { GroupsResult, RolloutCounts, RolloutGroup } from '../rollout/index.ts';
import type { RunContext } from './run-context.ts';
import type { RunDirectory } from './run-directory.ts';
import { stepName } from './run-files.ts';
import { addCounts, countsOf } from './run-record.ts';
import type { RunState } from './run-state.ts';
import { type AdmittedStep, runStep, type StepResult } from './run-step.ts';
import { type Draw, ScenarioDraws } from './scenario-draws.ts';
import { type TrainSettings, trainDefaults } from './train-options.ts';

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
    this.#tasks.push(new StepTask(context, { step, sampled: model.at(sampled), scenarios, kept }));
  }
}

interface InterruptedStep {
  /** Groups of the step. */
  count: number;
  /** Whether it was the step's turn to be logged and trained, once its rollouts had ended. */
  isNext: boolean;
}

/**
 * What stays of a step that was interrupted: groups in which a rollout completed. The others may be the doing of what
 * interrupted it, and run anew; not where the step may have been logged and trained without them.
 */
export function groupsThatStay(
  found: ReadonlyMap<number, RolloutGroup>,
  { count, isNext }: InterruptedStep,
): ReadonlyMap<number, RolloutGroup> {
  const completed = new Map([...found].filter(([, { trajectories }]) => trajectories.length > 0));
  const mayBeLogged = isNext && found.size === count && completed.size > 0;
  return mayBeLogged ? found : completed;
}

/** A step on its way: its rollouts begin at once, and it trains when its turn comes. */
class StepTask<Schema extends z.ZodType, Outcome> {
  readonly step: number;
  readonly scenarios: AdmittedStep<Schema>['scenarios'];
  /** Settles when all its rollouts have ended. */
  readonly gathered: Promise<GroupsResult<z.output<Schema>>>;
  readonly #turn = Promise.withResolvers<ModelHandle | null>();
  readonly #done: Promise<StepResult | null>;

  constructor(
    context: RunContext<Schema, Outcome>,
    admitted: Omit<AdmittedStep<Schema>, 'onGathered' | 'turn'>,
  ) {
    this.step = admitted.step;
    this.scenarios = admitted.scenarios;
    const { promise, resolve, reject } = Promise.withResolvers<GroupsResult<z.output<Schema>>>();
    this.gathered = promise;
    this.#done = runStep(context, { ...admitted, onGathered: resolve, turn: this.#turn.promise });
    this.#done.catch(reject);
    // Awaited later, or never where the run ends before.
    this.gathered.catch(() => undefined);
  }

  /** @param model Pinned to the newest checkpoint. */
  async train(model: ModelHandle): Promise<StepResult> {
    this.#turn.resolve(model);
    const result = await this.#done;
    if (!result) throw new TypeError(`Step ${this.step} was cancelled before its turn.`);
    return result;
  }

  /** The run ends without it: the result of its rollouts, once the run's signal has ended them. */
  cancelPending(): Promise<GroupsResult<z.output<Schema>>> {
    this.#turn.resolve(null);
    return this.gathered;
  }
}
