import type { z } from 'zod';
import type { RolloutGroup } from '../rollout/index.ts';
import { startStopwatch } from '../util/stopwatch.ts';
import { stopGraceMs, withGrace } from './grace.ts';
import type { GroupSender } from './group-sender.ts';
import { configOf } from './job-config.ts';
import type { Learner } from './learners.ts';
import type { RunContext } from './run-context.ts';
import { stepName } from './run-files.ts';
import type { JobEnd, RunJobOptions } from './run-job.ts';
import { runStepJob } from './step-job.ts';
import { rolloutFigures } from './step-report.ts';
import { logOnce } from './submit-training.ts';
import { recordTokens } from './trained-tokens.ts';

/** A step whose groups have ended. */
interface EndedStep<Schema extends z.ZodType, Outcome> {
  step: number;
  ended: readonly RolloutGroup[];
  sender: GroupSender<Schema, Outcome>;
}

/** What a step made of a learner. */
export interface TrainedLearner {
  learner: Learner;
  groupsWithSignal: number;
  /** Null if there was nothing to train on: the learner keeps its checkpoint. */
  job: JobEnd | null;
}

/**
 * Trains all learners at once, each on the groups of its seats in a job of its own. The groups are in the journal, so
 * they are written and logged while the jobs train, and also if a job fails.
 */
export async function trainLearners<Schema extends z.ZodType, Outcome>(
  run: RunContext<Schema, Outcome>,
  { step, ended, sender }: EndedStep<Schema, Outcome>,
) {
  const clock = startStopwatch();
  let training = 0;
  const onEnded = () => {
    training += clock.lap();
  };
  // A seat is compared with the same seat only, so each is a group of its own.
  const groups = ended.flatMap((group) => group.bySeat());
  const start = (learner: Learner) => startTraining(run, { step, learner, groups, sender, onEnded });
  const [first, ...others] = run.learners;
  const policy = start(first);
  const trainings = [policy, ...others.map(start)];
  const recorded = Promise.all(trainings.map(({ requested }) => requested)).then(async () => {
    await run.directory.writeTrajectories(stepName(step), ended, step);
    for (const { learner, own } of trainings) await logGroups(run, { step, learner, groups: own, sender });
    return rolloutFigures(ended);
  });
  // Nothing may go on after the step has ended.
  const settled = Promise.allSettled([recorded]);
  await Promise.allSettled(trainings.map(({ trained }) => trained));
  const checkpoint = clock.lap();
  await settled;
  const learners = await Promise.all(trainings.map(({ trained }) => trained));
  const result = await policy.trained;
  const { job, jobId } = result;
  if (job && !job.untrained && jobId !== undefined)
    await recordTokens(run, { model: first.model, step, jobId, groups: policy.trainable });
  const figures = await recorded;
  return { learners, policy: result, figures, phases: { training, checkpoint, log: clock.lap() } };
}

interface Training<Schema extends z.ZodType, Outcome> {
  step: number;
  learner: Learner;
  /** Groups of all seats. */
  groups: readonly RolloutGroup[];
  sender: GroupSender<Schema, Outcome>;
  /** Called when the gradient steps of its job have ended. */
  onEnded: () => void;
}

/** Requests the training job of a learner, if there is something to train on, and follows it to its checkpoint. */
function startTraining<Schema extends z.ZodType, Outcome>(
  run: RunContext<Schema, Outcome>,
  { step, learner, groups, sender, onEnded }: Training<Schema, Outcome>,
) {
  const own = groups.filter((group) => learner.plays(group));
  const trainable = own.filter(isForTraining);
  const bodies = trainable.map((group) => group.toTrajectoryGroup());
  const groupsWithSignal = bodies.filter((group) => group.hasSignal).length;
  // Without an entropy bonus or a teacher, equal rewards give no gradient: the service would reject the job, or train on
  // nothing.
  const { entropy_coefficient: bonus, kl_penalty_reference_model: teacher } =
    configOf(run.settings, step) ?? {};
  const learnsAnyway = (bonus ?? 0) > 0 || (teacher ?? null) !== null;
  const canTrain = groupsWithSignal > 0 || (bodies.length > 0 && learnsAnyway);
  const requested = Promise.withResolvers<void>();
  const onProgress: RunJobOptions['onProgress'] = ({ metrics: _, ...progress }) => {
    requested.resolve();
    if (progress.status === 'ended') onEnded();
    if (learner.isPolicy) run.emit({ type: 'job', step, ...progress });
  };
  const train = async () => {
    const sent = (signal: AbortSignal) => sender.groupsFor(learner.model, trainable, signal);
    const ended = canTrain ? await runStepJob(run, { step, learner, groups: sent, onProgress }) : null;
    return { learner, groupsWithSignal, job: ended?.outcome ?? null, jobId: ended?.jobId };
  };
  const trained = train();
  trained.catch(() => undefined).then(() => requested.resolve());
  return { learner, own, trainable, requested: requested.promise, trained };
}

/** A seat that made no call in any rollout has nothing to train on. */
const isForTraining = ({ isTrainable, trajectories }: RolloutGroup): boolean =>
  isTrainable && trajectories.length > 0;

function logGroups<Schema extends z.ZodType, Outcome>(
  { directory, state, signal }: RunContext<Schema, Outcome>,
  { step, learner, groups, sender }: Omit<Training<Schema, Outcome>, 'onEnded'>,
): Promise<void> {
  const name = learner.stepName(step);
  // A run that is stopped when its job has ended keeps the step, so its log is finished too.
  return withGrace(signal, stopGraceMs, async (graceSignal) =>
    logOnce({
      model: learner.model,
      split: 'train',
      groups: await sender.groupsFor(learner.model, groups, graceSignal),
      idempotencyKey: `${state.runId}/${name}`,
      signal: graceSignal,
      directory,
      name,
    }),
  );
}
