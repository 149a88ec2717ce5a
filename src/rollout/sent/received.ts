import { z } from 'zod';
import { MartingaleError } from '../../contract/index.ts';
import { isSendableReward, sendableRewards, type TrajectoryRecord } from '../../trajectory/index.ts';
import { messageOf } from '../../util/error.ts';
import { isObject } from '../../util/json.ts';
import { type SentRollout, toRollout } from './sent-rollout.ts';

const count = z.number().int().min(0);
const reward = z.number().refine(isSendableReward, `rewards are numbers ${sendableRewards}`);
const record = z.custom<TrajectoryRecord>(
  (value) => isObject(value) && isObject(value.record) && Array.isArray(value.record.calls),
  'expected the record of a trajectory',
);
export const failureSchema = z.looseObject({
  code: z.string().min(1).max(200),
  message: z.string().max(1_000_000),
});
const base = {
  index: count,
  attempt: count,
  seed: z.number(),
  durationMs: z.number().min(0),
  trajectory: record,
  seats: z
    .array(
      z.looseObject({
        seat: z.string(),
        model: z.string(),
        trains: z.boolean(),
        isPolicy: z.boolean(),
        trajectory: record,
      }),
    )
    .max(1000)
    .optional(),
};

const schema = z.discriminatedUnion('status', [
  z.strictObject({ ...base, status: z.literal('completed'), reward, outcome: z.unknown() }),
  z.strictObject({ ...base, status: z.literal('failed'), failure: failureSchema }),
  z.strictObject({ ...base, status: z.literal('cancelled'), failure: failureSchema }),
]);

/**
 * Reads a rollout from another process. Checks its form and bounds, and that it is the requested one.
 * @throws MartingaleError (`invalid_result`) that names the field.
 */
export function receiveRollout(
  value: unknown,
  asked: { index: number; attempt: number; seed: number },
): SentRollout {
  const parsed = schema.safeParse(value);
  if (!parsed.success) throw invalid(z.prettifyError(parsed.error));
  for (const name of ['index', 'attempt', 'seed'] as const)
    if (parsed.data[name] !== asked[name])
      throw invalid(`its ${name} is ${parsed.data[name]}, and ${asked[name]} was asked for`);
  const rollout = parsed.data as SentRollout;
  try {
    for (const { trajectory } of [rollout, ...(rollout.seats ?? [])])
      if (!isSendableReward(trajectory.reward ?? 0))
        throw invalid(
          `trajectory.reward is ${trajectory.reward}, and rewards are numbers ${sendableRewards}`,
        );
    toRollout(rollout);
    return rollout;
  } catch (error) {
    if (MartingaleError.isInstance(error) && error.code === 'invalid_result') throw error;
    throw invalid(`its trajectory cannot be read: ${messageOf(error)}`, error);
  }
}

const invalid = (what: string, cause?: unknown) =>
  new MartingaleError('invalid_result', what.slice(0, 500), { cause });
