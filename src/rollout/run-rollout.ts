import type { z } from 'zod';
import { MartingaleError } from '../contract/index.ts';
import { checkMetrics, type Environment, score } from '../environment/index.ts';
import { type ModelHandle, runWithModel } from '../model/index.ts';
import { attribute, errorType, spanName, withSpan } from '../telemetry/index.ts';
import { runInTrajectory, runOutsideTrajectory, Trajectory } from '../trajectory/index.ts';
import type { Rollout, RolloutFailure } from './rollout.ts';

export interface RunRolloutOptions<Schema extends z.ZodType, Outcome> {
  environment: Environment<Schema, Outcome>;
  scenario: z.output<Schema>;
  model: ModelHandle;
  group: number;
  index: number;
  attempt: number;
  seed: number;
  timeoutMs: number;
  onUnexpectedCall: 'error' | 'warn';
  signal: AbortSignal | undefined;
}

/** One for all: a stack trace for each of a run's rollouts would cost more than the rest of their ending. */
const rolloutEnded = new MartingaleError('rollout_ended', 'The rollout has ended.');

/** What a timer can hold; it would fire at once for more. */
const longestTimerMs = 2 ** 31 - 1;

type Completed<Outcome> = { status: 'completed'; reward: number; outcome: Outcome };
type Interruption = { status: 'failed' | 'cancelled'; failure: RolloutFailure };

/**
 * Runs one rollout to a defined end: whatever the environment's functions do, also where they never return, it is
 * completed, failed or cancelled by its deadline. Never throws.
 */
export function runRollout<Schema extends z.ZodType, Outcome>(
  options: RunRolloutOptions<Schema, Outcome>,
): Promise<Rollout<Outcome>> {
  const { group, index, model } = options;
  const attributes = {
    [attribute.groupIndex]: group,
    [attribute.rolloutIndex]: index,
    [attribute.policyVersion]: model.step,
  };
  return withSpan(spanName.rollout, attributes, async (span) => {
    const rollout = await settle(options);
    span.setAttribute(attribute.rolloutOutcome, rollout.status);
    if (rollout.status === 'completed') span.setAttribute(attribute.reward, rollout.reward);
    else span.setAttribute(errorType, rollout.failure.code);
    return rollout;
  });
}

async function settle<Schema extends z.ZodType, Outcome>(
  options: RunRolloutOptions<Schema, Outcome>,
): Promise<Rollout<Outcome>> {
  const { environment, scenario, model, group, index, attempt, seed, timeoutMs, onUnexpectedCall, signal } =
    options;
  const begun = performance.now();
  const controller = new AbortController();
  const trajectory = new Trajectory({
    ...(model.step === undefined ? {} : { policy: model.name }),
    seed,
    onUnexpectedCall,
    signal: controller.signal,
  });
  Object.assign(trajectory.metadata, { group, rollout: index, seed });
  const end = (ended: Interruption | Completed<Outcome>): Rollout<Outcome> => {
    trajectory.close();
    return { index, attempt, seed, trajectory, durationMs: performance.now() - begun, ...ended };
  };
  if (signal?.aborted) return end(cancelled(signal));

  const { interruption, dispose } = interruptions(controller, signal, timeoutMs);
  const run = async (): Promise<Completed<Outcome>> => {
    const outcome = await runInTrajectory(trajectory, () =>
      runWithModel(model, async () =>
        environment.rollout({ scenario, model, trajectory, signal: controller.signal, seed }),
      ),
    );
    // A swallowed error is still an error: the conversation went on without what the policy would have said.
    if (trajectory.violation) throw trajectory.violation;
    if (trajectory.histories.length === 0) throw new NothingRecordedError(model.name);
    const reward = await runOutsideTrajectory(() =>
      score(environment.rewards, { scenario, outcome, trajectory, signal: controller.signal }),
    );
    checkMetrics(trajectory.metrics);
    return { status: 'completed', reward, outcome };
  };
  try {
    const settled = await Promise.race([run(), interruption]);
    if (settled.status === 'completed') trajectory.reward = settled.reward;
    return end(settled);
  } catch (error) {
    return end({ status: 'failed', failure: toFailure(error) });
  } finally {
    dispose();
  }
}

/** A rollout that called no model through its handle has nothing to train on. */
class NothingRecordedError extends MartingaleError {
  constructor(model: string) {
    super(
      'nothing_recorded',
      `The rollout made no call to "${model}". Hand \`model.languageModel\` to the agent, or build it on policy().`,
    );
  }
}

/** Settles with the reason when the deadline passes or the run is stopped; either aborts `controller`. */
function interruptions(controller: AbortController, signal: AbortSignal | undefined, timeoutMs: number) {
  const { promise, resolve } = Promise.withResolvers<Interruption>();
  const interrupt = (interruption: Interruption) => {
    resolve(interruption);
    controller.abort(new MartingaleError(interruption.failure.code, interruption.failure.message));
  };
  const afterMs = Math.min(timeoutMs, longestTimerMs);
  const timer = setTimeout(() => {
    interrupt({
      status: 'failed',
      failure: {
        code: 'rollout_timeout',
        message: `The rollout and its rewards took longer than ${timeoutMs} ms. Raise the deadline, or pass \`signal\` on and find what waits.`,
      },
    });
  }, afterMs);
  const onAbort = () => signal && interrupt(cancelled(signal));
  signal?.addEventListener('abort', onAbort, { once: true });
  const dispose = () => {
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
    // What the agent left running ends with its rollout.
    controller.abort(rolloutEnded);
  };
  return { interruption: promise, dispose };
}

function cancelled(signal: AbortSignal): Interruption {
  const reason: unknown = signal.reason;
  const message = reason instanceof Error ? reason.message : String(reason);
  return { status: 'cancelled', failure: { code: 'cancelled', message: `The run was stopped: ${message}` } };
}

function toFailure(error: unknown): RolloutFailure {
  if (MartingaleError.isInstance(error)) return { code: error.code, message: error.message };
  if (error instanceof Error) return { code: error.name, message: error.message };
  return { code: 'thrown', message: String(error) };
}
