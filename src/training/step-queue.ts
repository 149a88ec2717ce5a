import type { z } from 'zod';
import { type DrawnScenario, type ScenarioSource, toScenarioSource } from '../environment/index.ts';
import {
  type GroupsResult,
  parseScenarios,
  type RolloutCounts,
  type RolloutGroup,
  trajectoriesOf,
} from '../rollout/index.ts';
import { whyNotSendable } from '../trajectory/index.ts';
import { withDeadline } from '../util/deadline.ts';
import { TrainingError } from './errors.ts';
import type { RunContext } from './run-context.ts';
import type { RunDirectory } from './run-directory.ts';
import { stepName } from './run-files.ts';
import { addCounts, countsOf } from './run-record.ts';
import type { RunState } from './run-state.ts';
import { type AdmittedStep, runStep, type StepResult } from './run-step.ts';
import { seatsOfStep } from './seats.ts';
import { type TrainSettings, trainDefaults } from './train-options.ts';

/** A step whose rollouts have started. */
export interface StepInFlight<Schema extends z.ZodType>
  extends Pick<AdmittedStep<Schema>, 'step' | 'scenarios'> {
  /** Settles when all its rollouts have ended. */
  rollouts: Promise<GroupsResult<z.output<Schema>>>;
  /** Logs and trains it. Call it when all earlier steps have trained. */
  train: () => Promise<StepResult>;
  /** Ends it after its rollouts. */
  cancel: () => void;
}

/**
 * The admitted, unfinished steps, in order. Each step samples from the checkpoint of `maxStaleness` steps before it,
 * and is admitted as soon as that checkpoint exists. This bounds the staleness of each group. Timing does not decide
 * which checkpoint a group samples from.
 */
export class StepQueue<Schema extends z.ZodType, Outcome> {
  readonly #settings: TrainSettings<Schema, Outcome>;
  readonly #source: ScenarioSource<z.input<Schema>>;
  readonly #maxStaleness: number;
  #draws: RunState['draws'] = [];
  #steps: StepInFlight<Schema>[] = [];
  #sourceHasEnded = false;

  constructor(settings: TrainSettings<Schema, Outcome>) {
    this.#settings = settings;
    this.#source = toScenarioSource(settings.scenarios, settings.seed ?? trainDefaults.seed);
    this.#maxStaleness = settings.maxStaleness ?? trainDefaults.maxStaleness;
  }

  /** The next step to train; undefined if the source has ended. */
  get next(): StepInFlight<Schema> | undefined {
    return this.#steps[0];
  }

  /** The position of the source, and its positions before the draws of the unfinished steps. */
  get position(): Pick<RunState, 'position' | 'draws'> {
    return { position: this.#source.position(), draws: this.#draws };
  }

  /**
   * Starts the unfinished steps of an interrupted run again. Finished groups with a completed rollout do not run again.
   */
  async resume(run: RunContext<Schema, Outcome>): Promise<void> {
    const { draws, position } = run.state;
    const drawn: DrawnScenario<z.output<Schema>>[][] = [];
    for (const draw of draws) {
      await this.#source.seek(draw.position);
      drawn.push(await this.#draw(draw.step, run.signal));
    }
    await this.#source.seek(position);
    this.#draws = draws;
    for (const [index, { step }] of draws.entries()) await this.#start(run, step, drawn[index] ?? []);
  }

  /**
   * Starts every step that may start. Its draw need not be saved first: after a kill, the saved position draws the same
   * scenarios again.
   */
  async admit(run: RunContext<Schema, Outcome>): Promise<void> {
    const { finishedSteps } = run.state;
    const last = Math.min(finishedSteps + this.#maxStaleness, this.#settings.steps - 1);
    while (!this.#sourceHasEnded && finishedSteps + this.#steps.length <= last) {
      const step = finishedSteps + this.#steps.length;
      const position = this.#source.position();
      const scenarios = await this.#draw(step, run.signal);
      this.#sourceHasEnded = scenarios.length === 0;
      if (this.#sourceHasEnded) return;
      this.#draws = [...this.#draws, { step, position }];
      await this.#start(run, step, scenarios);
    }
  }

  /** Removes a trained step and passes its results to the source. */
  async settle({ step, scenarios, rollouts }: StepInFlight<Schema>): Promise<void> {
    const { groups } = await rollouts;
    this.#draws = this.#draws.filter((draw) => draw.step !== step);
    this.#steps = this.#steps.filter((other) => other.step !== step);
    this.#source.observe(
      scenarios.map(({ key }, index) => ({
        key,
        rewards: groups[index]?.trajectories.flatMap(({ reward }) => reward ?? []) ?? [],
      })),
    );
  }

  /**
   * Call it after the run's signal has aborted. Writes the groups of unfinished steps to disk and returns their counts.
   */
  async cancelPending(directory: RunDirectory): Promise<RolloutCounts> {
    const counts = countsOf([]);
    for (const { step, rollouts, cancel } of this.#steps) {
      cancel();
      // If groups could not be written to disk, that error has already ended the run.
      const ended = await rollouts.catch(() => undefined);
      if (!ended) continue;
      addCounts(counts, ended.counts);
      await directory.writeTrajectories(stepName(step), ended.groups, step).catch(() => undefined);
    }
    return counts;
  }

  /** The scenarios of the next draw, parsed. Empty if the source has ended. */
  async #draw(step: number, signal: AbortSignal): Promise<DrawnScenario<z.output<Schema>>[]> {
    const { environment, groupsPerStep } = this.#settings;
    const { scenarioTimeoutMs: timeoutMs = trainDefaults.scenarioTimeoutMs } = this.#settings;
    const timedOut = () =>
      new TrainingError(
        'scenario_timeout',
        `The source of scenarios did not return the ones for step ${step} within ${timeoutMs} ms. Raise ` +
          '`scenarioTimeoutMs`, or find out what its generator waits for.',
      );
    const drawn = await withDeadline({ timeoutMs, signal, timedOut }, (ending) =>
      this.#source.take(groupsPerStep, { signal: ending }),
    );
    const scenarios = drawn.map(({ scenario }) => scenario);
    const parsed = await parseScenarios(environment, scenarios);
    return parsed.map((scenario, index) => ({ scenario, key: drawn[index]?.key ?? '' }));
  }

  async #start(
    run: RunContext<Schema, Outcome>,
    step: number,
    scenarios: AdmittedStep<Schema>['scenarios'],
  ): Promise<void> {
    const { state, directory } = run;
    const [{ model, state: policy }] = run.learners;
    const sampled = policy.policySteps[Math.max(0, step - this.#maxStaleness)];
    if (sampled === undefined) throw new RangeError(`Step ${step} is admitted before its model exists.`);
    const found = await directory.readJournal(step);
    const isNext = step === state.finishedSteps;
    const kept = groupsToKeep(found, { count: scenarios.length, isNext });
    if (kept.size < found.size) await directory.rewriteJournal(step, kept.values());
    const seats = seatsOfStep(step, {
      seats: this.#settings.seats,
      state,
      reports: run.reports(),
      maxStaleness: this.#maxStaleness,
    });
    this.#steps.push(startStep(run, { step, sampled: model.at(sampled), scenarios, seats, kept }));
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
 * change. A group that the service would refuse was not logged, and runs again: the run that stopped there was of a
 * version that did not check it.
 */
export function groupsToKeep(
  found: ReadonlyMap<number, RolloutGroup>,
  { count, isNext }: InterruptedStep,
): ReadonlyMap<number, RolloutGroup> {
  const sendable = new Map([...found].filter(([, group]) => isSendable(group)));
  const completed = new Map([...sendable].filter(([, { trajectories }]) => trajectories.length > 0));
  const mayBeLogged = isNext && sendable.size === count && completed.size > 0;
  return mayBeLogged ? sendable : completed;
}

const isSendable = ({ rollouts }: RolloutGroup): boolean =>
  rollouts
    .filter(({ status }) => status === 'completed')
    .flatMap(trajectoriesOf)
    .every((trajectory) => whyNotSendable(trajectory) === undefined);

/** Starts the rollouts of a step. */
function startStep<Schema extends z.ZodType, Outcome>(
  run: RunContext<Schema, Outcome>,
  admitted: Omit<AdmittedStep<Schema>, 'onRollouts' | 'mayTrain'>,
): StepInFlight<Schema> {
  const rollouts = Promise.withResolvers<GroupsResult<z.output<Schema>>>();
  const mayTrain = Promise.withResolvers<boolean>();
  const ended = runStep(run, { ...admitted, onRollouts: rollouts.resolve, mayTrain: mayTrain.promise });
  ended.catch(rollouts.reject);
  // Awaited later, or never if the run ends first.
  rollouts.promise.catch(() => undefined);
  return {
    step: admitted.step,
    scenarios: admitted.scenarios,
    rollouts: rollouts.promise,
    train: async () => {
      mayTrain.resolve(true);
      const result = await ended;
      if (!result) throw new TypeError(`Step ${admitted.step} was cancelled before it could train.`);
      return result;
    },
    cancel: () => mayTrain.resolve(false),
  };
}
