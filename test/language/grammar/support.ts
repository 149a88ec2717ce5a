import { z } from 'zod';
import type { Constraint, Grammar, JsonSchema } from '../../../src/language/constraint/constraint.ts';
import { type CompiledConstraint, GrammarCompiler } from '../../../src/language/grammar/compiler.ts';
import type { ConstraintState } from '../../../src/language/grammar/constraint-state.ts';
import { encodeReply } from '../../../src/language/grammar/encode-reply.ts';
import { chatFormat, loadTokenizer } from '../../../src/language/tokenizer/embedded.ts';

export const SEED = 20261121;
export const tokenizer = loadTokenizer();
export const format = chatFormat(tokenizer);
export const compiler = new GrammarCompiler(tokenizer, format);

/** The whole reply is one text of the grammar. */
export const textOf = (grammar: Grammar): Constraint => ({
  branches: [{ open: null, grammar, repeat: false }],
});

export function schemaOf(type: z.ZodType): JsonSchema {
  return z.toJSONSchema(type) as JsonSchema;
}

/** Tokens as they read, for golden examples. */
export const shown = (tokens: Iterable<number>): string[] =>
  Array.from(tokens, (token) => tokenizer.text(token));

/** Replies chosen by a generator of numbers from 0 up to a bound, token by token as an engine would. */
export function walk(
  compiled: CompiledConstraint,
  choose: (bound: number) => number,
  maximum = 20_000,
): number[] {
  return walkOn(compiled.start(), choose, maximum);
}

/** The rest of a reply that has begun, chosen in the same way. */
export function walkOn(
  state: ConstraintState,
  choose: (bound: number) => number,
  maximum = 20_000,
): number[] {
  const tokens: number[] = [];
  while (!state.ended && tokens.length < maximum) {
    tokens.push(...state.takeForced());
    if (state.ended) break;
    const legal = state.legal();
    const closing = [...legal].filter(
      (token) => /["\]},]/.test(tokenizer.text(token)) || token === format.endToken,
    );
    const token =
      closing.length > 0 && choose(4) === 0 ? closing[choose(closing.length)]! : legal[choose(legal.length)]!;
    state.accept(token);
    tokens.push(token);
  }
  return tokens;
}

/** Feeds tokens to a fresh state; throws where one is not what the state admits or demands. */
export function replay(compiled: CompiledConstraint, tokens: readonly number[]): boolean {
  const state = compiled.start();
  let index = 0;
  while (!state.ended) {
    for (const token of state.takeForced())
      if (tokens[index++] !== token) throw new Error(`token ${index - 1} should be ${tokenizer.text(token)}`);
    if (state.ended) break;
    if (index >= tokens.length) return false;
    state.accept(tokens[index++]!);
  }
  return index === tokens.length;
}

/** The constraint admits the text, and its tokens spell it. */
export async function admits(grammar: Grammar, text: string): Promise<boolean> {
  const constraint = textOf(grammar);
  const compiled = await compiler.compile(constraint);
  let tokens: number[];
  try {
    tokens = encodeReply({ parts: [text], constraint }, compiled, tokenizer, format);
  } catch {
    return false;
  }
  return replay(compiled, tokens) && tokenizer.decode(tokens) === text;
}

/** A small generator of its own, so that walks need nothing from the code under test. */
export function randomChooser(seed: number): (bound: number) => number {
  let state = seed >>> 0;
  return (bound) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * bound);
  };
}
