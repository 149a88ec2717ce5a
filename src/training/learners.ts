import type { z } from 'zod';
import { withoutStep } from '../contract/index.ts';
import { type ModelHandle, newestStep, requireModelId } from '../model/index.ts';
import { isTrainedSeat, type RolloutGroup, type SeatModels } from '../rollout/index.ts';
import { RunError } from '../util/run-error.ts';
import { warn } from '../util/warning.ts';
import { pruneCheckpoints } from './checkpoints.ts';
import { invalidRunOption } from './errors.ts';
import { stopGraceMs, withGrace } from './grace.ts';
import type { GroupSender } from './group-sender.ts';
import type { RunContext } from './run-context.ts';
import { type RunDirectory, runFiles } from './run-directory.ts';
import { stepName } from './run-files.ts';
import type { RunState } from './run-state.ts';
import { runStepJob } from './step-job.ts';
import { logOnce } from './submit-training.ts';
import { trainDefaults } from './train-options.ts';

/** The further models that train in a run, by their names without a step. */
type Learners = ReadonlyMap<string, ModelHandle>;

/** The models of seats with `trains`. @throws OptionError for the model of the run, and for one that cannot be trained. */
export function learnersOf(seats: SeatModels | undefined, policy: ModelHandle): Learners {
  const learners = new Map<string, ModelHandle>();
  for (const [seat, player] of Object.entries(seats ?? {})) {
    if (!isTrainedSeat(player)) continue;
    const name = withoutStep(player.model.name);
    if (name === withoutStep(policy.name))
      throw invalidRunOption(
        `seats.${seat}`,
        name,
        'The model of the run trains anyway: leave the seat out.',
      );
    requireModelId(player.model);
    learners.set(name, player.model);
  }
  return learners;
}

/**
 * Adds the learners to the state of a new run; for a resumed run, checks that nothing else has trained them.
 * @throws RunError
 */
export async function startLearners(
  learners: Learners,
  { state, directory, signal }: { state: RunState; directory: RunDirectory; signal: AbortSignal },
): Promise<void> {
  for (const [name, model] of learners) {
    const newest = await newestStep(model, signal);
    const known = state.learners[name];
    if (!known) {
      state.learners[name] = { policySteps: [newest], checkpoints: [] };
      continue;
    }
    const before = known.policySteps.at(-1);
    const job = await directory.read(runFiles.job(state.finishedSteps, name));
    // A job without an outcome may have made a checkpoint since.
    const isOwn = newest === before || (job && newest === (job.outcome?.step ?? newest));
    if (!isOwn)
      throw new RunError(
        'resume_refused',
        `"${name}" plays a seat of the run and was at step ${before}, but its newest checkpoint is step ` +
          `${newest}: something else has trained it since. Delete its later checkpoints, or start another run.`,
      );
  }
}

/** The step of each learner's checkpoint after a step of the run. */
export type TrainedLearners = ReadonlyMap<string, number>;

interface LearnersStep<Schema extends z.ZodType, Outcome> {
  step: number;
  groups: readonly RolloutGroup[];
  sender: GroupSender<Schema, Outcome>;
}

/**
 * Trains each learner on the groups of its seats in a job of its own, and logs them with it. A learner without a group
 * that has a signal keeps its checkpoint.
 */
export async function trainLearners<Schema extends z.ZodType, Outcome>(
  run: RunContext<Schema, Outcome>,
  { step, groups, sender }: LearnersStep<Schema, Outcome>,
): Promise<TrainedLearners> {
  const trained = await allOrFirstError(
    [...run.learners].map(async ([name, model]) => {
      const newest = run.state.learners[name]?.policySteps.at(-1) ?? 0;
      const own = groups.filter(({ seat }) => seat && withoutStep(seat.model) === name);
      const from = model.at(newest);
      const groupsFor = (signal: AbortSignal) => sender.groupsFor(from, own, signal);
      const canTrain = own.some((group) => group.toTrajectoryGroup().hasSignal);
      const outcome = canTrain
        ? await runStepJob(run, {
            step,
            model: from,
            learner: name,
            groups: groupsFor,
            onProgress: () => undefined,
          })
        : null;
      await withGrace(run.signal, stopGraceMs, async (signal) =>
        logOnce({
          model: from,
          split: 'train',
          groups: await groupsFor(signal),
          idempotencyKey: `${run.state.runId}/${stepName(step)}/${name}`,
          signal,
          directory: run.directory,
          name: `${stepName(step)}.${encodeURIComponent(name)}`,
        }),
      );
      return [name, outcome?.outcome.step ?? newest] as const;
    }),
  );
  return new Map(trained);
}

/** The results, once all have settled. @throws the first error. */
async function allOrFirstError<Result>(work: readonly Promise<Result>[]): Promise<Result[]> {
  await Promise.allSettled(work);
  return Promise.all(work);
}

/** Notes the checkpoints that a step made in the state. */
export function noteLearners(state: RunState, trained: TrainedLearners): void {
  for (const [name, step] of trained) {
    const known = state.learners[name];
    if (!known) continue;
    if (step !== known.policySteps.at(-1)) known.checkpoints.push(step);
    known.policySteps.push(step);
  }
}

/** Deletes the learners' checkpoints that `keepCheckpoints` does not keep. Never rejects: the next step tries again. */
export async function pruneLearners<Schema extends z.ZodType, Outcome>({
  learners,
  state,
  settings,
  signal,
}: RunContext<Schema, Outcome>): Promise<void> {
  const { keepCheckpoints = trainDefaults.keepCheckpoints, maxStaleness = trainDefaults.maxStaleness } =
    settings;
  const keep = typeof keepCheckpoints === 'object' ? keepCheckpoints.newest : keepCheckpoints;
  for (const [name, model] of learners) {
    const known = state.learners[name];
    if (!known) continue;
    const alsoKeep = known.policySteps.slice(-maxStaleness - 1);
    try {
      const left = { model, steps: known.checkpoints, keep, alsoKeep };
      known.checkpoints = await withGrace(signal, stopGraceMs, (graceSignal) =>
        pruneCheckpoints({ ...left, signal: graceSignal }),
      );
    } catch (error) {
      warn(
        'martingale_checkpoints_not_deleted',
        `Old checkpoints of ${name} could not be deleted; the run continues: ${String(error)}`,
      );
    }
  }
}
