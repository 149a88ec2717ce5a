const sequenceLength = 4;

/** Four-token sequences of a reply, and how many of them stood earlier in it. */
export function countRepeats(tokens: readonly number[]): { sequences: number; repeated: number } {
  const seen = new Set<string>();
  const sequences = Math.max(0, tokens.length - sequenceLength + 1);
  for (let at = 0; at < sequences; at++) seen.add(tokens.slice(at, at + sequenceLength).join());
  return { sequences, repeated: sequences - seen.size };
}

/** Share of a reply's four-token sequences that stood earlier in it; 0 for a reply of fewer than four tokens. */
export function repeatedShare(tokens: readonly number[]): number {
  const { sequences, repeated } = countRepeats(tokens);
  return sequences === 0 ? 0 : repeated / sequences;
}
