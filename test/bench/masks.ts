import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { GrammarCompiler } from '../../src/language/compiler/compiler.ts';
import type { Constraint } from '../../src/language/grammar/constraint.ts';
import type { CompiledConstraint } from '../../src/language/grammar/constraint-state.ts';
import { makeLargeVocabulary } from '../language/grammar/large-vocabulary.ts';
import { randomChooser } from '../language/grammar/support.ts';
import { writtenCall } from '../support/written-call.ts';

export const vocabularySize = 150_000;
/** Most decisions of a reply. */
const maxDecisions = 1000;

/** What the states of one reply cost. */
interface MaskRow {
  what: string;
  decisions: number;
  /** For the legal tokens of a state that was never reached before, in milliseconds. */
  cold: { first: number; median: number; most: number };
  /** For those of a known state. */
  known: number;
  /** Memory that the compiler keeps after the reply, beside the vocabulary. */
  mib: number;
}

const object = (properties: Record<string, unknown>) => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
});
const address = object({ street: { type: 'string' }, zip: { type: 'string', pattern: '^[0-9]{5}$' } });
const order = object({
  kind: { enum: ['refund', 'cancel', 'status', 'other'] },
  email: { type: 'string', pattern: '^[a-z0-9.]+@[a-z0-9]+\\.[a-z]{2,4}$' },
  note: { type: 'string', maxLength: 100 },
  count: { type: 'integer' },
  addresses: { type: 'array', items: address, maxItems: 3 },
});

/** Samples replies under constraints over a large vocabulary, with one compiler for each. */
export async function benchMasks(): Promise<MaskRow[]> {
  const { tokenizer, endToken } = makeLargeVocabulary(vocabularySize);
  const textOf = (schema: Record<string, unknown>): Constraint => ({
    grammar: { type: 'json_schema', schema },
  });
  const constraints: Record<string, Constraint> = {
    'a string of at most 1,000 characters': textOf({ type: 'string', minLength: 1000, maxLength: 1000 }),
    'a string of any length': textOf({ type: 'string', minLength: 1000 }),
    'an object with an enum, patterns, strings and nested objects': textOf(order),
    'reasoning, then tool calls': {
      reasoning: { before: '<think>\n', close: '</think>', after: '\n\n', limit: 100 },
      grammar: {
        type: 'named_json',
        alternatives: [{ name: 'order', schema: order }],
        written: { ...writtenCall, between: '' },
      },
    },
  };
  const sample = (compiled: CompiledConstraint): number[] => {
    const choose = randomChooser(3);
    const state = compiled.start();
    const times: number[] = [];
    while (times.length < maxDecisions) {
      state.takeForced();
      if (state.ended) break;
      const before = performance.now();
      const legal = state.legal();
      times.push(performance.now() - before);
      // One byte at a time, so that a text has many states: the first tokens of the vocabulary are the bytes.
      const { ids } = legal;
      const bytes = ids.findIndex((id) => id >= 256);
      state.accept(ids[choose(bytes > 0 ? bytes : ids.length)]!);
    }
    return times;
  };
  const rows: MaskRow[] = [];
  for (const [what, constraint] of Object.entries(constraints)) {
    const compiler = new GrammarCompiler(tokenizer, { endToken });
    const compiled = await compiler.compile(constraint);
    const before = memory();
    const cold = sample(compiled);
    const mib = (memory() - before) / 2 ** 20;
    const known = sample(compiled);
    rows.push({
      what,
      decisions: cold.length,
      cold: { first: cold[0]!, median: median(cold), most: Math.max(...cold.slice(1)) },
      known: median(known),
      mib,
    });
  }
  return rows;
}

function median(values: readonly number[]): number {
  return values.toSorted((left, right) => left - right)[values.length >> 1]!;
}

/** Bytes in use after garbage collection. */
function memory(): number {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}
