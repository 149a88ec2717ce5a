import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { rowIndex, toRows } from '../../../../src/engines/embedded/runner/shared-prefixes.ts';
import { type Architecture, usualOptions } from '../../../../src/engines/embedded/weights/architecture.ts';

const architecture: Architecture = {
  vocabularySize: 512,
  width: 64,
  layers: 2,
  heads: 4,
  keyValueHeads: 2,
  headWidth: 16,
  mlpWidth: 256,
  contextLength: 4096,
  positions: { theta: 10_000, scaling: null },
  previousTokens: 0,
  mlp: 'gated-silu',
  ...usualOptions,
  normEpsilon: 1e-6,
  queryKeyNorm: false,
  attentionBias: false,
  tiedEmbeddings: true,
};
const sequence = (tokens: number[]) => ({ tokens, decisions: [] });
const conversation = (prompt: number, reply: number, seed: number) =>
  sequence([...new Array(prompt).fill(1), ...new Array(reply).fill(2 + seed)]);
const always = () => true;

describe('sequences with the same first tokens', () => {
  it('are in rows in which every sequence has each of its tokens at the index of its position', () => {
    const tokens = fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(fc.array(tokens, { maxLength: 12 }), fc.integer({ min: 1, max: 40 }), (lists, most) => {
        const sequences = lists.map(sequence);
        const rows = toRows(sequences, architecture, (length) => length <= most);
        expect(new Set(rows.flatMap((row) => row.sequences))).toEqual(new Set(sequences));
        expect(rows.reduce((sum, row) => sum + row.sequences.length, 0)).toBe(sequences.length);
        for (const row of rows) {
          const used = new Set<number>();
          for (const [index, { tokens }] of row.sequences.entries())
            for (const [position, token] of tokens.entries()) {
              const at = rowIndex(row.branches, index, position);
              expect(row.tokens[at]).toBe(token);
              used.add(at);
            }
          expect(used.size).toBe(row.tokens.length);
          if (row.sequences.length > 1) expect(row.tokens.length).toBeLessThanOrEqual(most);
        }
      }),
    );
  });

  it('share the prompt of a group, and stay apart where the attention between them would take longer', () => {
    const shortPrompt = Array.from({ length: 4 }, (_, seed) => conversation(10, 2000, seed));
    expect(toRows(shortPrompt, architecture, always)).toHaveLength(4);
    const longPrompt = Array.from({ length: 4 }, (_, seed) => conversation(500, 20, seed));
    const [row, ...others] = toRows(longPrompt, architecture, always);
    expect(others).toEqual([]);
    expect(row?.tokens).toHaveLength(580);
    expect(row?.branches).toEqual({ shared: 500, starts: [500, 520, 540, 560] });
  });

  it('stay apart where the memory for training does not hold them together', () => {
    const group = Array.from({ length: 4 }, (_, seed) => conversation(500, 20, seed));
    expect(toRows(group, architecture, (tokens) => tokens <= 540).map(({ tokens }) => tokens.length)).toEqual(
      [540, 540],
    );
  });
});
