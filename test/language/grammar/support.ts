import { z } from 'zod';
import { builtInLanguage } from '../../../src/engines/embedded/built-in/built-in-language.ts';
import { GrammarCompiler } from '../../../src/language/compiler/compiler.ts';
import type { Constraint, Grammar, JsonSchema } from '../../../src/language/grammar/constraint.ts';
import type { CompiledConstraint, ConstraintState } from '../../../src/language/grammar/constraint-state.ts';
import { encodeReply } from '../../../src/language/grammar/encode-reply.ts';

export const SEED = 20261121;
export const { tokenizer, format } = builtInLanguage();
export const compiler = new GrammarCompiler(tokenizer, format);

/** Tokens that text of a grammar may begin with: all but the special ones, and the bytes 80 to C1 and F5 to FF. */
export const textBeginnings = tokenizer.vocabularySize - tokenizer.special.size - 0x42 - 0x0b;

/** A constraint under which the whole reply is one text of the grammar. */
export const textOf = (grammar: Grammar): Constraint => ({ grammar });

export function schemaOf(type: z.ZodType): JsonSchema {
  return z.toJSONSchema(type) as JsonSchema;
}

/** Tokens as text, for golden examples. */
export const shown = (tokens: Iterable<number>): string[] =>
  Array.from(tokens, (token) => tokenizer.text(token));

/** Samples a reply token by token, as an engine would. `choose(bound)` returns a number from 0 to below the bound. */
export function walk(
  compiled: CompiledConstraint,
  choose: (bound: number) => number,
  maximum = 20_000,
): number[] {
  return walkOn(compiled.start(), choose, maximum);
}

/** Samples the rest of a reply in the same way. */
export function walkOn(
  state: ConstraintState,
  choose: (bound: number) => number,
  maximum = 20_000,
): number[] {
  const tokens: number[] = [];
  while (!state.ended && tokens.length < maximum) {
    tokens.push(...state.takeForced());
    if (state.ended) break;
    const legal = state.legal().ids;
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

/** Feeds tokens to a new state; throws at a token that the state does not allow. */
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

/** Whether the constraint allows the text. */
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

/** A separate random generator, so that walks do not depend on the code under test. */
export function randomChooser(seed: number): (bound: number) => number {
  let state = seed >>> 0;
  return (bound) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * bound);
  };
}
