import { invalidField } from '../../errors.ts';

/** Refuses, by place, ids that are none of the vocabulary's. */
export function refuseForeignTokens(
  tokens: readonly number[] | undefined,
  vocabularySize: number,
  location: (string | number)[],
): void {
  if (!tokens) return;
  for (let index = 0; index < tokens.length; index++) {
    const token = tokens[index] ?? 0;
    if (token < 0 || token >= vocabularySize)
      throw invalidField([...location, index], rangeOf(vocabularySize), token);
  }
}

export const rangeOf = (vocabularySize: number) =>
  `token ids go from 0 to ${vocabularySize - 1} in this model's vocabulary`;
