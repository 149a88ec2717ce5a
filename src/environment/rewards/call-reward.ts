import { withDeadline } from '../../util/deadline.ts';
import type { EnvironmentError } from '../errors.ts';
import { describeThrown, describeValue } from '../thrown.ts';

/** Makes the error of a function that failed or took too long. `what` continues a sentence about the function. */
export type RewardError = (how: 'failed' | 'timeout', what: string, cause?: unknown) => EnvironmentError;

/**
 * Calls a reward, a group reward or `credit` with a signal of its own and a deadline.
 * @throws EnvironmentError if it throws or takes too long; the reason of `context.signal` if that was aborted.
 */
export async function callReward<Context extends { signal: AbortSignal }, Result>(
  reward: (context: Context) => Result | PromiseLike<Result>,
  context: Context,
  { timeoutMs, toError }: { timeoutMs: number; toError: RewardError },
): Promise<Result> {
  const { signal } = context;
  // Created on timeout only: its stack trace costs more than most rewards do.
  let timeout: EnvironmentError | undefined;
  const timedOut = () => {
    const what = `took longer than ${timeoutMs} ms. Raise \`rewardTimeoutMs\`, or find what it waits for`;
    timeout = toError('timeout', what);
    return timeout;
  };
  try {
    return await withDeadline({ timeoutMs, signal, timedOut }, async (ownSignal) =>
      reward({ ...context, signal: ownSignal }),
    );
  } catch (error) {
    if ((timeout && error === timeout) || signal.aborted) throw error;
    // A sentence follows, so the message needs no period of its own.
    throw toError('failed', `threw: ${describeThrown(error).replace(/\.$/, '')}`, error);
  }
}

/** What is wrong with a value that should be a finite number. `whose` is empty, or says whose value it is. */
export const noNumber = (value: unknown, whose = ''): string =>
  `returned ${describeValue(value)}${whose}, not a finite number` +
  (typeof value === 'boolean' ? `. Return Number(...), which makes it ${Number(value)}` : '');

/** @throws EnvironmentError unless `values` is a list with one finite number for each index. */
export function checkNumbers(
  values: unknown,
  { noun, indices, toError }: { noun: 'call' | 'member'; indices: readonly number[]; toError: RewardError },
): void {
  if (!Array.isArray(values) || values.length !== indices.length) {
    const what = Array.isArray(values) ? `${values.length} numbers` : describeThrown(values);
    throw toError('failed', `returned ${what} for ${indices.length} ${noun}s. Return one number per ${noun}`);
  }
  for (const [at, index] of indices.entries())
    if (!Number.isFinite(values[at])) {
      throw toError('failed', noNumber(values[at], ` for ${noun} ${index}`));
    }
}
