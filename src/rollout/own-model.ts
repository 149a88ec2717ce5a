import { codeOfThrown, describeThrown, errorsWithin } from '../environment/index.ts';

const remedy =
  "call usePolicyAsDefaultProvider({ models: ['its name'] }) once, so that the name means the policy, or pass it " +
  '`model.languageModel`';

/** Advice for an agent that called no policy. */
export const ownModelAdvice = `If the agent names its own model by a string, ${remedy}.`;

/**
 * Advice to put before the message of an agent's error if the agent names its model by a string. The AI SDK then asks its
 * gateway for that model, and complains that a key is missing. A stream replaces this error by one that says only that
 * nothing came. Null for other errors.
 * @param isPolicyCalled Whether a call has reached the policy.
 */
export function adviceForOwnModel(error: unknown, isPolicyCalled: boolean): string | null {
  const errors = errorsWithin(error);
  if (errors.some((within) => describeThrown(within).includes('AI_GATEWAY_API_KEY')))
    return `As the agent names its own model, the AI SDK asked its gateway for that, not the policy: ${remedy}.`;
  const isEmptyStream = errors.some((within) => codeOfThrown(within) === 'AI_NoOutputGeneratedError');
  return isEmptyStream && !isPolicyCalled ? `No call reached the policy. ${ownModelAdvice}` : null;
}
