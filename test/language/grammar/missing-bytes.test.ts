import { describe, expect, it } from 'vitest';
import { GrammarCompiler } from '../../../src/language/compiler/compiler.ts';
import type { Grammar } from '../../../src/language/grammar/constraint.ts';
import { encodeReply } from '../../../src/language/grammar/encode-reply.ts';
import { ANY_CHARACTER, characters } from '../../../src/language/grammar/expression.ts';
import { Writable } from '../../../src/language/grammar/writable.ts';
import { readTokenizer } from '../../../src/language/tokenizer/read-tokenizer.ts';
import { randomChooser, textOf } from './support.ts';

const tokenizer = readTokenizer(new URL('../fixtures/smollm2', import.meta.url).pathname);
const endToken = tokenizer.special.get('<|im_end|>') as number;
const compiler = new GrammarCompiler(tokenizer, { endToken });

/** The texts of some walks. Each ends, or the walk finds nothing legal and throws. */
async function texts(grammar: Grammar, count = 100): Promise<string[]> {
  const compiled = await compiler.compile(textOf(grammar));
  return Array.from({ length: count }, (_, seed) => {
    const choose = randomChooser(Math.imul(seed, 0x9e3779b1));
    const state = compiled.start();
    const tokens: number[] = [];
    while (!state.ended && tokens.length < 2000) {
      tokens.push(...state.takeForced());
      if (state.ended) break;
      const { ids } = state.legal();
      const token =
        ids.includes(endToken) && choose(3) === 0 ? endToken : (ids[choose(ids.length)] as number);
      state.accept(token);
      tokens.push(token);
    }
    return tokenizer.decode(tokens);
  });
}

it('the characters that can be written are those without a missing byte in UTF-8', () => {
  const missingBytes = new Set([0x04, 0x85, 0xc3, 0xe2, 0xf1]);
  const { start } =
    Writable.of({ missingBytes })?.partOf({ start: characters(ANY_CHARACTER), rules: new Map() }) ?? {};
  const ranges = start?.kind === 'characters' ? start.ranges : [];
  for (let code = 0; code < 0x110000; code += code < 0x3000 ? 1 : 37) {
    if (code >= 0xd800 && code < 0xe000) continue;
    const isWritten = !Buffer.from(String.fromCodePoint(code)).some((byte) => missingBytes.has(byte));
    if (ranges.some(([first, last]) => first <= code && code <= last) !== isWritten)
      throw new Error(`U+${code.toString(16)} should be ${isWritten}`);
  }
});

describe('a grammar over a vocabulary that lacks some bytes', () => {
  it('never leads to a byte that is no token', async () => {
    for (const pattern of [
      '[\\u0000-\\u0020]{1,8}',
      '[\\u{3fff0}-\\u{c0010}]{1,4}',
      '(\\x04|a)+\\x05?',
      '[^a-z]{0,9}',
    ])
      for (const text of await texts({ type: 'regex', pattern })) {
        expect(text).toMatch(new RegExp(`^(${pattern})$`, 'u'));
        expect(Buffer.from(text).filter((byte) => tokenizer.missingBytes.has(byte))).toHaveLength(0);
        expect(text).not.toContain('\ufffd');
      }
  });

  it('writes all of its other texts', async () => {
    const found = await texts({ type: 'regex', pattern: '[\\u0003-\\u0006]' });
    expect(new Set(found)).toEqual(new Set(['\u0003', '\u0005']));
  });

  it('leaves out alternatives that cannot be written, also behind rules', async () => {
    const choices = ['a\u0004', 'b', '\u{40000}'];
    expect(new Set(await texts({ type: 'choice', choices }))).toEqual(new Set(['b']));
    const grammar = 'root ::= "x" part\npart ::= [\\x04] | [\\x06] part | "y"';
    expect(new Set(await texts({ type: 'ebnf', grammar }))).toEqual(new Set(['xy']));
  });

  it('escapes control characters in JSON, so that every value can be written', async () => {
    const schema = { enum: ['\u0004', '\u0006'] };
    const found = await texts({ type: 'json_schema', schema });
    expect(new Set(found.map((text) => JSON.parse(text)))).toEqual(new Set(schema.enum));
  });

  it('is refused, with the bytes, if no text of it can be written', async () => {
    for (const grammar of [
      { type: 'choice', choices: ['\u0004', 'x\u0006'] },
      { type: 'regex', pattern: '\\u0004+' },
      { type: 'json_schema', schema: { const: '\u{40000}' } },
    ] satisfies Grammar[])
      await expect(compiler.compile(textOf(grammar))).rejects.toThrow(
        `The ${grammar.type} grammar allows no text that is written without the bytes 0x04, 0x06, 0x13, 0x14`,
      );
  });

  it('takes a reply of training data without them', async () => {
    const reply = { parts: ['a\u0004b \u{40000}'], constraint: null };
    expect(tokenizer.decode(encodeReply(reply, null, tokenizer, { endToken }))).toBe('ab \ufffd\ufffd\ufffd');
    const constraint = textOf({ type: 'regex', pattern: '[a-z]+' });
    const compiled = await compiler.compile(constraint);
    const tokens = encodeReply({ parts: ['a\u0004b'], constraint }, compiled, tokenizer, { endToken });
    expect(tokenizer.decode(tokens)).toBe('ab');
    const empty = encodeReply({ parts: ['\u0004'], constraint: null }, null, tokenizer, { endToken });
    expect(empty).toEqual([endToken]);
  });
});
