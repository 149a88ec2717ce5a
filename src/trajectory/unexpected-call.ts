import { formatModelName, type ModelName, parseModelName } from '../contract/index.ts';
import { UnexpectedCallError, type UnexpectedCallReason } from './errors.ts';
import type { RecordedCall } from './recorded-call.ts';

/** What keeps a call from being trained on, if anything. `policy`: the pinned name that must answer; absent: any may. */
export function checkCall(
  { model, choice, promptTokenIds }: RecordedCall,
  policy: string | undefined,
): UnexpectedCallError | undefined {
  if (policy !== undefined && model !== policy) {
    const { reason, what } = mismatch(model, policy);
    return new UnexpectedCallError(
      reason,
      `${what} answered a call of a rollout pinned to "${policy}". Call the model that the rollout is given; a judge ` +
        'or teacher on the same service is `model.with({ record: false })`.',
    );
  }
  if (choice.token_ids?.length && promptTokenIds.length > 0) return undefined;
  return new UnexpectedCallError(
    'token_ids_missing',
    `"${model}" answered without token ids, so the call cannot be trained on exactly. The service must support ` +
      '`return_token_ids`.',
  );
}

function mismatch(model: string, policy: string): { reason: UnexpectedCallReason; what: string } {
  const answered = parseModelName(model);
  const wanted = parseModelName(policy);
  if (!answered) return { reason: 'base_model', what: `The base model "${model}"` };
  if (wanted && withoutStep(answered) === withoutStep(wanted))
    return { reason: 'other_step', what: `Another step, "${model}",` };
  return { reason: 'other_model', what: `Another model, "${model}",` };
}

const withoutStep = ({ entity, project, name }: ModelName): string =>
  formatModelName({ entity, project, name });
