import { gunzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { toolSchema } from '../../../src/contract/index.ts';
import { toolsJson } from '../../../src/language/grammar/limits.ts';
import { packBody } from '../../../src/service/jobs/pack-body.ts';
import { trajectoryText } from '../../../src/service/jobs/packed-trajectories.ts';
import { rememberTools } from '../../../src/service/json/exact-tools.ts';
import { readJson, readText } from '../../../src/service/json/read-text.ts';
import { exactText } from '../../../src/util/exact-json.ts';

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
  ['a body that is read in a thread', 'x'.repeat(300_000)],
])('the schemas of tools keep their text: %s', async (_, content) => {
  const body = `{"messages": [{"role": "user", "content": "${content}"}], "tools": ${tools.replaceAll(',', ' , ')}, "seed": 1.0}`;
  expect(await readJson(Buffer.from(body))).toMatchObject({ seed: 1, tools: [{ type: 'function' }] });
  const read = Object(await readJson(Buffer.from(body)));
  expect(shown(read.tools)).toBe(tools);
});

it.each([
  ['short groups', 1],
  ['groups that are read in a thread', 10_000],
])('so do those of trajectories, from the body to its lines: %s', async (_, count) => {
  const trajectory = `{"messages_and_choices":[${Array(count).fill('{"role":"user","content":"hello"}').join()}],"reward":1.5,"tools":${tools},"additional_histories":[{"messages_and_choices":[],"tools":${tools}}]}`;
  const body = `{"trajectory_groups":[{"trajectories":[${trajectory},${trajectory}]}]}`;
  const content = Buffer.from(body);
  const packed = await packBody(
    { content, bytes: content.length, fingerprint: '' },
    { form: 'job', known: new Set(), caller: {} },
    async () => null,
  );
  const lines = gunzipSync(packed?.content ?? '').toString();
  expect(lines).toBe(`${trajectory}\n${trajectory}\n\n`);
  const read = await readText(trajectoryText, Buffer.from(trajectory));
  expect([shown(read.tools), shown(read.additional_histories?.[0]?.tools)]).toEqual([tools, tools]);
});

it('reads a text of any length in them', () => {
  const text = `{"tools":[1.0,"${'\\n'.repeat(12_000_000)}"]}`;
  const value = JSON.parse(text);
  rememberTools(value, text);
  expect(exactText(value) === text).toBe(true);
});
