import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { describe, expect, it } from 'vitest';
import type { JsonSchema } from '../../../src/language/grammar/constraint.ts';
import { writtenCall } from '../../support/written-call.ts';
import { compiler, randomChooser, textOf, tokenizer, walk } from './support.ts';

/** Schemas of the tools of published MCP servers, as they list them, without descriptions. */
const servers: Record<string, Record<string, JsonSchema>> = JSON.parse(
  readFileSync(new URL('fixtures/mcp-tools.json', import.meta.url), 'utf8'),
);
const tools = Object.entries(servers).flatMap(([server, named]) =>
  Object.entries(named).map(([name, schema]) => ({ server, name, schema })),
);

const { beforeName, after } = writtenCall;

describe('a tool of an MCP server', () => {
  it.each(tools)('can be called: $name of $server', async ({ name, schema }) => {
    const ajv = new Ajv2020({ strict: false, logger: false });
    addFormats.default(ajv);
    const validate = ajv.compile({ ...schema, $schema: undefined });
    const compiled = await compiler.compile(
      textOf({ type: 'named_json', alternatives: [{ name, schema }], written: writtenCall }),
    );
    let whole = 0;
    for (let seed = 0; seed < 10; seed++) {
      const call = tokenizer.decode(walk(compiled, randomChooser(seed), 1_000));
      if (!call.endsWith(`}${after}`)) continue;
      let value: unknown;
      try {
        value = JSON.parse(call.slice(beforeName.length + name.length, -after.length));
      } catch {
        continue;
      }
      whole++;
      expect(validate(value), `${call} ${ajv.errorsText(validate.errors)}`).toBe(true);
    }
    expect(whole).toBeGreaterThan(0);
  });
});
