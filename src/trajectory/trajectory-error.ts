import {
  type Choice,
  formatModelName,
  MartingaleError,
  type ModelName,
  parseModelName,
} from '../contract/index.ts';

/**
 * Why a rollout cannot use a call for training.
 *
 * - `outside_rollout`: the call used a rollout's handle outside of any rollout, so no trajectory records it.
 * - `base_model`: a base model answered instead of the checkpoint that the rollout is pinned to.
 * - `other_step`: another checkpoint of the same model answered.
 * - `other_model`: another model answered.
 * - `token_ids_missing`: the service returned no token ids, and text is never tokenized again for training.
 */
export type UnexpectedCallReason =
  | 'outside_rollout'
  | 'base_model'
  | 'other_step'
  | 'other_model'
  | 'token_ids_missing';

/** The environment limit that a rollout reached. */
export type UsedUpLimit = 'turn_limit' | 'token_limit' | 'tool_call_limit' | 'time_limit';

/**
 * - `trajectory_closed`: a model was called in a rollout that had ended.
 * - `trajectory_sealed`: a trajectory was changed after it was submitted for training.
 * - `not_trainable`: a trajectory was submitted for training whose tokens are unknown, because an external model sampled them,
 *   or its data was released, as after a validation.
 * - `unexpected_call_...`: a model call cannot be trained on; see UnexpectedCallReason.
 * - `turn_limit`, `token_limit`, `tool_call_limit`, `time_limit`: the rollout has reached this limit, so the model call
 *   is not made.
 * - `invalid_group_record`: a line of a run's trajectories is not a group record.
 */
export type TrajectoryErrorCode =
  | 'trajectory_closed'
  | 'trajectory_sealed'
  | 'not_trainable'
  | 'invalid_group_record'
  | `unexpected_call_${UnexpectedCallReason}`
  | UsedUpLimit;

/** A trajectory rejects a model call or a change, or cannot be trained on. */
export class TrajectoryError<
  Code extends TrajectoryErrorCode = TrajectoryErrorCode,
> extends MartingaleError<Code> {}

export function trajectoryClosed(trajectoryId: string): TrajectoryError {
  return new TrajectoryError(
    'trajectory_closed',
    `A model was called in rollout ${trajectoryId} after that rollout had ended. Await every call inside the ` +
      'rollout function, and pass its `signal` on so that work stops when the rollout does.',
  );
}

const limitUnits: Record<UsedUpLimit, string> = {
  turn_limit: 'model calls',
  token_limit: 'sampled tokens',
  tool_call_limit: 'tool calls',
  time_limit: 'milliseconds',
};

/** The field of the environment's `limits` that sets each limit. */
export const limitFields = {
  turn_limit: 'turns',
  token_limit: 'tokens',
  tool_call_limit: 'toolCalls',
  time_limit: 'milliseconds',
} as const satisfies Record<UsedUpLimit, string>;

export function limitReached(reached: UsedUpLimit, limit: number): TrajectoryError<UsedUpLimit> {
  return new TrajectoryError(
    reached,
    `The rollout has reached its limit of ${limit} ${limitUnits[reached]}. Raise \`limits.${limitFields[reached]}\` of the ` +
      'environment, or set `atLimit`, which returns an outcome for a rollout that ends at its limit.',
  );
}

export function isLimitReached(error: unknown): error is TrajectoryError<UsedUpLimit> {
  return error instanceof TrajectoryError && Object.hasOwn(limitUnits, error.code);
}

export type UnexpectedCallError = TrajectoryError<`unexpected_call_${UnexpectedCallReason}`>;

export function unexpectedCall(reason: UnexpectedCallReason, message: string): UnexpectedCallError {
  return new TrajectoryError(`unexpected_call_${reason}`, message);
}

/** Maps the error code of an unexpected call to its reason. */
export const unexpectedReasons: Readonly<Record<UnexpectedCallError['code'], UnexpectedCallReason>> = {
  unexpected_call_outside_rollout: 'outside_rollout',
  unexpected_call_base_model: 'base_model',
  unexpected_call_other_step: 'other_step',
  unexpected_call_other_model: 'other_model',
  unexpected_call_token_ids_missing: 'token_ids_missing',
};

/**
 * The reason why a call cannot be trained on; undefined if it can.
 * @param policy Pinned name of the model that must answer; undefined allows any model.
 */
export function checkCall(
  call: { model: string; choice: Pick<Choice, 'token_ids'>; promptTokenIds: readonly number[] },
  policy: string | undefined,
): UnexpectedCallError | undefined {
  const { model, choice, promptTokenIds } = call;
  if (policy !== undefined && model !== policy) {
    const { reason, what } = mismatch(model, policy);
    return unexpectedCall(
      reason,
      `${what} answered a call of a rollout pinned to "${policy}". Call the \`model\` of the rollout's context; a judge ` +
        'or teacher on the same service is `model.with({ record: false })`.',
    );
  }
  if (choice.token_ids?.length && promptTokenIds.length > 0) return undefined;
  return unexpectedCall(
    'token_ids_missing',
    `"${model}" answered without token ids, so the call cannot be trained on exactly. The service must support ` +
      '`return_token_ids`.',
  );
}

function mismatch(model: string, policy: string): { reason: UnexpectedCallReason; what: string } {
  const answered = parseModelName(model);
  const expected = parseModelName(policy);
  if (!answered) return { reason: 'base_model', what: `The base model "${model}"` };
  if (expected && withoutStep(answered) === withoutStep(expected))
    return { reason: 'other_step', what: `Another step, "${model}",` };
  return { reason: 'other_model', what: `Another model, "${model}",` };
}

const withoutStep = ({ entity, project, name }: ModelName): string =>
  formatModelName({ entity, project, name });
