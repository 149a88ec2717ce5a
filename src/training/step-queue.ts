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
 * The admitted, unfinished steps, in order. Each step samples from the checkpoint of `maxStaleness` steps before it,
 * and is admitted as soon as that exists. This bounds the staleness of each group, and which checkpoint a group samples
 * from does not depend on timing.
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

  /** The next step to train; undefined if the source has ended. */
  get next(): StepTask<Schema, Outcome> | undefined {
    return this.#tasks[0];
  }

  /** Draws of the unfinished steps. */
  get draws(): Draw[] {
    return this.#draws.open;
  }

  /** Position of the scenario source. */
  position(): JsonValue {
    return this.#draws.position();
  }

  /**
   * Starts the unfinished steps of an interrupted run again. Finished groups with a completed rollout do not run again.
   */
  async takeUp(context: RunContext<Schema, Outcome>, standing: Standing): Promise<void> {
    const { draws, position } = standing.state;
    const drawn = await this.#draws.resume(draws, position, context.signal);
    for (const [index, { step }] of draws.entries())
      await this.#begin(context, standing, step, drawn[index] ?? []);
  }

  /** Starts every step that may start. @param note Saves the draws of a step before its rollouts start. */
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

  /** Removes a trained step and passes its results to the source. */
  async settle(task: StepTask<Schema, Outcome>): Promise<void> {
    const { groups } = await task.gathered;
    const results = task.scenarios.map(({ key }, index) => ({
      key,
      rewards: groups[index]?.trajectories.flatMap(({ reward }) => reward ?? []) ?? [],
    }));
    this.#draws.settle(task.step, results);
    this.#tasks = this.#tasks.filter((other) => other !== task);
  }

  /**
   * Call it after the run's signal has aborted. Writes the groups of unfinished steps to disk and returns their counts.
   */
  async cancelPending(directory: RunDirectory): Promise<RolloutCounts> {
    const counts = countsOf([]);
    for (const task of this.#tasks) {
      // If groups could not be written to disk, that error has already ended the run.
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
  /** Number of groups in the step. */
  count: number;
  /** Whether the step was the next to be logged and trained. */
  isNext: boolean;
}

/**
 * The groups of an interrupted step that do not run again: those with a completed rollout. The others may have failed
 * because of the interruption. All groups stay if the step may already have been logged, because its data must not
 * change.
 */
export function groupsThatStay(
  found: ReadonlyMap<number, RolloutGroup>,
  { count, isNext }: InterruptedStep,
): ReadonlyMap<number, RolloutGroup> {
  const completed = new Map([...found].filter(([, { trajectories }]) => trajectories.length > 0));
  const mayBeLogged = isNext && found.size === count && completed.size > 0;
  return mayBeLogged ? found : completed;
}

/** A step in flight. Its rollouts start at once; it trains when all earlier steps have. */
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
    // Awaited later, or never if the run ends first.
    this.gathered.catch(() => undefined);
  }

  /** @param model Pinned to the newest checkpoint. */
  async train(model: ModelHandle): Promise<StepResult> {
    this.#turn.resolve(model);
    const result = await this.#done;
    if (!result) throw new TypeError(`Step ${this.step} was cancelled before its turn.`);
    return result;
  }

  /** The run ends without this step. Returns its rollouts, which the run's signal has cancelled. */
  cancelPending(): Promise<GroupsResult<z.output<Schema>>> {
    this.#turn.resolve(null);
    return this.gathered;
  }
}
