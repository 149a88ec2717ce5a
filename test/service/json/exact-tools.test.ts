import { expect, it } from 'vitest';
import { toolSchema } from '../../../src/contract/index.ts';
import { toolsJson } from '../../../src/language/grammar/limits.ts';
import { readGroupedBody } from '../../../src/service/bodies/grouped-body.ts';
import { MemorySource } from '../../../src/service/json/byte-source.ts';
import { readJson } from '../../../src/service/json/parse.ts';

const parameters =
  '{"type":"object","properties":{"10":{"maximum":9223372036854775807},"2":{"default":[1e-07,1.0,0.1234567890123456789]},"a":{"description":"\\"tools\\": [1.0]"}}}';
const tools = `[{"type":"function","function":{"name":"look","parameters":${parameters}}}]`;

/** The JSON of the validated tools, as a prompt shows it. */
const shown = (given: unknown) => {
  const list: unknown[] = Array.isArray(given) ? given : [];
  return toolsJson(
    list.map((tool) => toolSchema.parse(tool)),
    [],
  );
};

it.each([
  ['a short body', ''],
  ['a body that is read in slices', 'x'.repeat(300_000)],
])('the schemas of tools keep their text: %s', async (_, content) => {
  const body = `{"messages": [{"role": "user", "content": "${content}"}], "tools": ${tools.replaceAll(',', ' , ')}, "seed": 1.0}`;
  expect(await readJson(Buffer.from(body))).toMatchObject({ seed: 1, tools: [{ type: 'function' }] });
  const read = Object(await readJson(Buffer.from(body)));
  expect(shown(read.tools)).toBe(tools);
});

it.each([
  ['short groups', 1],
  ['groups that are read in slices', 10_000],
])('so do those of trajectories, from the body to its lines: %s', async (_, count) => {
  const trajectory = `{"messages_and_choices":[${Array(count).fill('{"role":"user","content":"hello"}').join()}],"reward":1.5,"tools":${tools},"additional_histories":[{"messages_and_choices":[],"tools":${tools}}]}`;
  const body = `{"trajectory_groups":[{"trajectories":[${trajectory},${trajectory}]}]}`;
  const { groups } = await readGroupedBody(
    new MemorySource(Buffer.from(body)),
    new Set(['trajectory_groups']),
  );
  let found = 0;
  for await (const part of groups()) {
    if (part.type !== 'trajectory') continue;
    const pieces: Uint8Array[] = [];
    for await (const piece of part.line()) pieces.push(Uint8Array.from(piece));
    expect(Buffer.concat(pieces).toString()).toBe(trajectory);
    const value = Object(part.value);
    expect([shown(value.tools), shown(value.additional_histories[0].tools)]).toEqual([tools, tools]);
    found++;
  }
  expect(found).toBe(2);
});
