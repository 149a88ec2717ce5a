import type { ChatCompletion, ChatCompletionChunk } from '../../contract/index.ts';

/*
 * Completions are checked by hand and by their envelope alone: choices go back whole when they are trained on, with
 * the fields that the contract does not have, and a schema would take longer than the call. A run makes tens of
 * thousands of these, with log-probabilities of every token.
 */

export function isCompletion(value: unknown): value is ChatCompletion {
  return (
    hasChoices(value) &&
    value.choices.length > 0 &&
    value.choices.every(isChoice) &&
    'usage' in value &&
    isObject(value.usage)
  );
}

/** A chunk may have no choices: the one that tells the usage has none. */
export function isChunk(value: unknown): value is ChatCompletionChunk {
  return hasChoices(value) && !('error' in value && value.error);
}

export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

function hasChoices(value: unknown): value is { model: string; choices: unknown[] } {
  return (
    isObject(value) &&
    'model' in value &&
    typeof value.model === 'string' &&
    'choices' in value &&
    Array.isArray(value.choices)
  );
}

function isChoice(value: unknown): boolean {
  return (
    isObject(value) &&
    'message' in value &&
    isObject(value.message) &&
    'finish_reason' in value &&
    typeof value.finish_reason === 'string'
  );
}
