import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { fromGroupRecord, parseGroupRecord, toGroupRecord } from '../../src/rollout/index.ts';
import { openingParts, RunViews } from '../../src/view/index.ts';
import { ServiceViews } from '../../src/view/service-views.ts';
import { startFakeService } from '../model/fake-service.ts';
import { sharedFolder, temporaryFolder } from '../support/files.ts';
import { clerkPolicy, makeClerkRun } from './make-clerk.ts';

const folder = sharedFolder();
const views = new RunViews([folder]);
const groups = join(folder, 'clerk', 'trajectories', 'step-0000.jsonl');

beforeAll(async () => {
  await using service = await startFakeService({ policy: clerkPolicy });
  await makeClerkRun(service, join(folder, 'clerk'));
});

describe('the opening of a model', () => {
  it.for(['local/shop/clerk', 'local/shop/clerk:step1', 'shop/clerk'])('is found by %s', async (model) => {
    expect(await views.opening(model)).toMatchObject({
      run: 'clerk',
      messages: [{ role: 'system', content: 'You are a clerk.' }],
      example: expect.stringMatching(/^Where is order \d+\?$/),
      tools: [{ function: { name: 'lookUp' } }],
      askedForm: { response_format: { type: 'json_schema' } },
    });
  });

  it('is null for a model that no run trained', async () => {
    expect(await views.opening('local/shop/other')).toBeNull();
    expect(await views.opening('local/shop/clerk-2')).toBeNull();
  });

  it('lacks the form of the reply in a run of an earlier version', async () => {
    const root = await temporaryFolder();
    await cp(join(folder, 'clerk'), join(root, 'clerk'), { recursive: true });
    const file = join(root, 'clerk', 'trajectories', 'step-0000.jsonl');
    const lines = (await readFile(file, 'utf8'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    for (const { trajectories } of lines) for (const { record } of trajectories) delete record.asked_form;
    await writeFile(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    const opening = await new RunViews([root]).opening('shop/clerk');
    expect(opening?.askedForm).toEqual({});
    expect(opening?.tools).toHaveLength(1);
  });
});

it('a tool choice is sent for the first answer of a chat alone, and said', async () => {
  await using service = await startFakeService({ policy: clerkPolicy });
  const root = await temporaryFolder();
  await makeClerkRun(service, join(root, 'clerk'), { toolChoice: 'required' });
  const opening = await new RunViews([root]).opening('shop/clerk');
  expect(opening && openingParts(opening)).toEqual([
    'its instructions',
    '1 tool (lookUp)',
    'its response format',
    'its tool choice "required" for the first answer',
  ]);
  const page = new ServiceViews(service.client, 'http://127.0.0.1');
  const question = { model: 'local/shop/clerk', openingOf: 'shop/clerk', temperature: 0, maxTokens: 8 };
  const first = { role: 'user', content: 'Where is order 4204?' } as const;
  const { message } = await page.ask({ ...question, messages: [first] }, opening);
  expect(service.requests.at(-1)?.tool_choice).toBe('required');
  const [call] = message.tool_calls ?? [];
  const result = { role: 'tool', tool_call_id: call?.id ?? '', content: 'order 4204 left' } as const;
  await page.ask({ ...question, messages: [first, message, result] }, opening);
  expect(service.requests.at(-1)).not.toHaveProperty('tool_choice');
  expect(service.requests.at(-1)).toMatchObject({
    tools: [{ function: { name: 'lookUp' } }],
    response_format: { type: 'json_schema' },
  });
});

it('the form that a rollout asked for survives its record', async () => {
  const [line = ''] = (await readFile(groups, 'utf8')).split('\n');
  const record = parseGroupRecord(line);
  expect(toGroupRecord(fromGroupRecord(record))).toEqual(record);
});
