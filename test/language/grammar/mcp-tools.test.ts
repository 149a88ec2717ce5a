import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { describe, expect, it } from 'vitest';
import { type CallForm, callForms } from '../../../src/language/call-forms.ts';
import { ReplyReader } from '../../../src/language/chat/reply-reader.ts';
import type { JsonSchema, WrittenCalls } from '../../../src/language/grammar/constraint.ts';
import type { CompiledConstraint } from '../../../src/language/grammar/constraint-state.ts';
import { argumentTypes } from '../../../src/language/grammar/json/argument-types.ts';
import { writtenCall, writtenParameters, writtenPython } from '../../support/written-call.ts';
import { compiler, randomChooser, textOf, tokenizer, walk } from './support.ts';

/** Schemas of the tools of published MCP servers, as they list them, without descriptions. */
const servers: Record<string, Record<string, JsonSchema>> = JSON.parse(
  readFileSync(new URL('fixtures/mcp-tools.json', import.meta.url), 'utf8'),
);
const tools = Object.entries(servers).flatMap(([server, named]) =>
  Object.entries(named).map(([name, schema]) => ({ server, name, schema })),
);

const styles: [string, WrittenCalls, CallForm][] = [
  ['JSON', writtenCall, callForms.named],
  ['Python', writtenPython, callForms.lfm2],
  ['parameters', writtenParameters, callForms['qwen3-coder']],
];

/** Texts without quotes end at random with their tag. */
function walkParameters(compiled: CompiledConstraint, choose: (bound: number) => number): number[] {
  const state = compiled.start();
  const tokens = state.takeForced();
  const end = Buffer.from('\n</parameter>\n');
  const take = (token: number) => {
    state.accept(token);
    tokens.push(token, ...(state.ended ? [] : state.takeForced()));
  };
  while (!state.ended && tokens.length < 1000) {
    const { ids, size } = state.legal();
    const closing = ids.filter((token) => /["\]}]/.test(tokenizer.text(token)));
    if (choose(4) > 0) {
      take(closing.length > 0 && choose(2) === 0 ? closing[choose(closing.length)]! : ids[choose(size)]!);
      continue;
    }
    for (let at = 0; at < end.length && !state.ended; ) {
      const token = compiled.trie.longestToken(state.legal(), end, at);
      if (token < 0) break;
      at += tokenizer.bytes(token).length;
      const before = tokens.length + 1;
      take(token);
      if (tokens.length > before) break;
    }
  }
  return tokens;
}

describe.each(styles)('a tool of an MCP server in %s', (_, written, style) => {
  it.each(tools)('can be called: $name of $server', async ({ name, schema }) => {
    const ajv = new Ajv2020({ strict: false, logger: false });
    addFormats.default(ajv);
    const validate = ajv.compile({ ...schema, $schema: undefined });
    const compiled = await compiler.compile(
      textOf({ type: 'named_json', alternatives: [{ name, schema }], written }),
    );
    let whole = 0;
    for (let seed = 0; seed < 10; seed++) {
      const call = tokenizer.decode(
        style.arguments === 'parameters'
          ? walkParameters(compiled, randomChooser(seed))
          : walk(compiled, randomChooser(seed), 1_000),
      );
      if (!call.endsWith(style.close || style.after)) continue;
      const reader = new ReplyReader({
        calls: style,
        typesOf: (_, argument) => argumentTypes(schema, argument),
        reasoning: null,
      });
      const [begun, ...pieces] = [...reader.push(call), ...reader.end({ isCut: false })];
      expect(begun).toMatchObject({ type: 'call', name });
      const text = pieces.map((piece) => (piece.type === 'arguments' ? piece.text : ''));
      const value: unknown = JSON.parse((begun?.type === 'call' ? begun.arguments : '') + text.join(''));
      whole++;
      expect(validate(value), `${call} ${ajv.errorsText(validate.errors)}`).toBe(true);
    }
    expect(whole).toBeGreaterThan(0);
  });
});
