import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { callForms } from '../../../src/language/call-forms.ts';
import { keywordArguments } from '../../../src/language/chat/python-literals.ts';
import { ReplyReader } from '../../../src/language/chat/reply-reader.ts';
import { testScale, testSeed } from '../../support/size.ts';
import { referencePython } from './packages.ts';

const [open, close] = callForms.lfm2.tags;

/** The name and the arguments of each call in a list, as a reply with it is read. */
function readCalls(list: string): [name: string, json: string][] {
  const reader = new ReplyReader({ calls: callForms.lfm2, reasoning: null });
  const calls: [string, string][] = [];
  const pieces = [...reader.push(`${open}${list}${close}`), ...reader.end({ isCut: false })];
  for (const piece of pieces)
    if (piece.type === 'call') calls.push([piece.name, piece.arguments]);
    else if (piece.type === 'arguments') calls.at(-1)![1] += piece.text;
  return calls;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

type Read = [name: string, json: string] | null;

async function pythonReads(texts: readonly string[]): Promise<Read[] | null> {
  const python = await referencePython('calls in Python beside its own parser');
  if (python === null) return null;
  const { stdout } = spawnSync(python, [join(import.meta.dirname, 'python-literals.py')], {
    input: JSON.stringify(texts),
    maxBuffer: 2 ** 28,
  });
  return JSON.parse(stdout.toString());
}

const sample = <Value>(arbitrary: fc.Arbitrary<Value>) =>
  fc.sample(arbitrary, { numRuns: 3000 * testScale, seed: testSeed });

describe('calls in Python beside its own parser', { tags: ['long'] }, () => {
  it('are written so that Python reads their JSON', async ({ skip }) => {
    const values = sample(fc.dictionary(fc.constantFrom('a', 'city', '_x1'), fc.jsonValue({ maxDepth: 4 })));
    const theirs = await pythonReads(values.map((value) => `f(${keywordArguments(JSON.stringify(value))})`));
    if (theirs === null) return skip();
    for (const [index, value] of values.entries()) {
      expect(theirs[index]?.[0]).toBe('f');
      expect(JSON.parse(theirs[index]?.[1] ?? '')).toEqual(JSON.parse(JSON.stringify(value)));
    }
  });

  it('are read as Python reads them, whatever is in them', async ({ skip }) => {
    const piece = fc.oneof(
      fc.constantFrom(...'"\'\\[]{}(),:= .-+_', '\\n', '\\x41', '\\u00e9', '\\U0001F600', '\\101', '\\d'),
      fc.constantFrom(
        'True',
        'False',
        'None',
        '1',
        '-2.5',
        '.5',
        '5.',
        '1e3',
        '1_000',
        '0',
        'é',
        '😀',
        'b=',
        'k',
      ),
      fc.string({ maxLength: 3 }).filter((text) => !/[\n\r\t\0\f\v]/.test(text)),
    );
    const text = fc.array(piece, { maxLength: 6 }).map((pieces) => pieces.join(''));
    const literal = fc.oneof(
      text,
      text.map((inner) => `'${inner}'`),
      text.map((inner) => `"${inner}"`),
      fc.tuple(text, text).map(([key, inner]) => `{"${key}": '${inner}', 'k': [${inner}]}`),
    );
    const calls = sample(literal).map((inner) => `f(a=${inner}, b=1)`);
    const theirs = await pythonReads(calls);
    if (theirs === null) return skip();
    let read = 0;
    for (const [index, call] of calls.entries()) {
      const own = readCalls(`[${call}]`);
      const their = theirs[index] ?? null;
      const json = own.length === 1 ? jsonOf(own[0]?.[1] ?? '') : undefined;
      if (their === null) {
        // Python refuses the words of JSON, leading zeros, names that repeat, incomplete escapes and what follows a call; its
        // JSON has no numbers beyond a double.
        const isLenient = /true|false|null|\b0[\d_]|[ab]=.*[ab]=.*b=|\\[NUux]|\).*\)|e\+?\d{3}/is.test(call);
        if (!isLenient) expect([call, json]).toEqual([call, undefined]);
        continue;
      }
      read++;
      // Python also reads signs apart from their numbers and other bases, and joins texts side by side.
      if (json === undefined && /[-+][-+ ]|["'] *[a-z]?["']|0[xob]/i.test(call)) continue;
      // Python has no negative zero among integers.
      expect([call, own[0]?.[0], JSON.stringify(json)]).toEqual([
        call,
        their[0],
        JSON.stringify(JSON.parse(their[1])),
      ]);
    }
    expect(read).toBeGreaterThan(calls.length / 4);
  });
});
