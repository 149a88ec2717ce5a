import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { trajectorySchema } from '../../../src/contract/index.ts';
import { ConversationRenderer } from '../../../src/language/chat/render.ts';
import { trajectorySequences } from '../../../src/service/jobs/sequences.ts';
import { baseModel, ScriptedEngine, special, tokensOf } from '../../support/scripted-engine.ts';
import { type Json, start } from '../harness.ts';
import { rl } from './support.ts';

const texts = ['one', 'two', 'three'];

/** A service, a model, and a conversation of three turns with it, whose choices have their whole prompts. */
async function conversed() {
  const started = await start();
  const { call, engine } = started;
  engine.replies = ['yes', 'no', 'maybe'].map((text) => ({ tokens: tokensOf(text, special.end) }));
  const model = await started.createModel();
  const messages: Json[] = [];
  const entries: Json[] = [];
  for (const content of texts) {
    messages.push({ role: 'user', content });
    entries.push({ role: 'user', content });
    const fields = { max_tokens: 9, return_token_ids: true, return_token_logprobs: true };
    const asked = { model: 'local/desk/agent', messages, ...fields };
    const [choice] = (await call('POST', '/v1/chat/completions', asked)).body.choices;
    entries.push(choice);
    messages.push({ role: 'assistant', content: choice.message.content, token_ids: choice.token_ids });
  }
  const store = (trajectories: Json[]) =>
    call('POST', `/v1/preview/models/${model.id}/groups`, { trajectories });
  const train = async (ids: string[]) => {
    const { body } = await call('POST', rl, { model_id: model.id, groups: ids });
    expect((await started.follow(body.id)).at(-1)?.type).toBe('training_ended');
    const { from: _, ...batch } = engine.trained.at(-1) ?? { from: null };
    return batch;
  };
  return { ...started, model, entries, store, train };
}

/** The same choices, of which those after the first have what they add to the one before. */
function added(entries: Json[]): Json[] {
  let known = 0;
  return entries.map((entry: Json) => {
    if (!entry.message) return entry;
    const { prompt_token_ids: prompt, ...choice } = entry;
    const from = known;
    known = prompt.length + choice.token_ids.length;
    return from === 0 ? entry : { ...choice, added_prompt_token_ids: prompt.slice(from) };
  });
}

const rewarded = (...conversations: Json[][]) =>
  conversations.map((messages_and_choices, reward) => ({ messages_and_choices, reward }));

test('choices that add to each other train as those with whole prompts, to the digit, and stay as sent in the log', async () => {
  const { call, entries, store, train, model, dataFolder } = await conversed();
  const changed = (prompts: Json[]) =>
    prompts.map((prompt) =>
      prompt.message ? { ...prompt, sampling: { ...prompt.sampling, prompt: null } } : prompt,
    );
  // Prompts that the messages do not render to become sequences of their own.
  const edited = (prompts: Json[]) =>
    changed(prompts).map((entry, at) => (at === 2 ? { role: 'user', content: 'another' } : entry));
  const form = (of: (prompts: Json[]) => Json[]) =>
    rewarded(of(entries), of(edited(entries)), of(entries.slice(0, 4)));
  const [whole, compact] = [await store(form((all) => all)), await store(form(added))];
  expect([whole.status, compact.status]).toEqual([200, 200]);
  expect({ ...compact.body, id: whole.body.id }).toEqual(whole.body);
  expect(compact.body.id).not.toBe(whole.body.id);
  const batch = await train([whole.body.id]);
  expect(batch).toHaveProperty('datums');
  expect(await train([compact.body.id])).toEqual(batch);

  await call('POST', `/v1/preview/models/${model.id}/log`, { split: 'val', groups: [compact.body.id] });
  const log = gunzipSync(
    await readFile(join(dataFolder, 'models', model.id, 'logs', 'val.jsonl.gz')),
  ).toString();
  expect(JSON.parse(log).trajectories).toEqual(form(added));
});

test('what cannot be added is refused by its field', async () => {
  const { call, entries, store, model } = await conversed();
  const compact = added(entries);
  const refused = async (at: number, fields: object, send = store) => {
    const conversation = compact.map((entry, index) => (index === at ? { ...entry, ...fields } : entry));
    const { status, body } = await send(rewarded(entries, conversation));
    return [status, body.detail?.[0]?.loc.slice(-5).join('.'), body.detail?.[0]?.msg];
  };
  const path = (at: number) => `trajectories.1.messages_and_choices.${at}.added_prompt_token_ids`;
  const says = (text: string) => expect.stringContaining(text);
  expect(await refused(3, { prompt_token_ids: [1] })).toEqual([
    ...[422, path(3), says('another form of prompt_token_ids')],
  ]);
  const first = { prompt_token_ids: null, added_prompt_token_ids: [1] };
  expect(await refused(1, first)).toEqual([422, path(1), says('adds to a choice before it')]);
  const unknown = { prompt_token_ids: null };
  expect(await refused(1, unknown)).toEqual([422, path(3), says('adds to a choice before it')]);
  const other = { added_prompt_token_ids: [65] };
  expect(await refused(3, other)).toEqual([422, path(3), says('which sampling.prompt names')]);
  const foreign = { added_prompt_token_ids: [65, 999_999] };
  expect((await refused(3, foreign)).slice(1)).toEqual([
    `1.messages_and_choices.3.added_prompt_token_ids.1`,
    says('token ids go from 0'),
  ]);
  const long = { added_prompt_token_ids: Array(600).fill(65) };
  expect(await refused(3, long)).toEqual([422, path(3), says("the model's context is 512")]);
  const job = (trajectories: Json[]) =>
    call('POST', rl, { model_id: model.id, trajectory_groups: [{ trajectories }] });
  expect(await refused(3, {}, job)).toEqual([422, path(3), says('only a group that is sent by itself')]);
  expect((await refused(3, { added_prompt_token_ids: ['a'] }))[0]).toBe(422);
});

test('sequences that repeat prompts that were not sent whole are bounded', async () => {
  const { entries } = await conversed();
  const engine = new ScriptedEngine();
  const renderer = new ConversationRenderer(engine.tokenizer(), engine.chatFormat());
  const context = {
    base: baseModel,
    tools: { format: engine.chatFormat(), renderer },
    constraints: { find: async (hash: string) => hash },
  };
  // Its messages render to other prompts.
  const messages_and_choices = added(entries).map((entry: Json) =>
    entry.message
      ? { ...entry, sampling: { ...entry.sampling, prompt: null } }
      : { role: 'user', content: 'another' },
  );
  const trajectory = trajectorySchema.parse({ messages_and_choices, reward: 1 });
  const own = entries
    .slice(2)
    .reduce((sum: number, entry: Json) => sum + (entry.prompt_token_ids?.length ?? 0), 0);
  const made = (tokens: number) => trajectorySequences(trajectory, ['at'], { ...context, room: { tokens } });
  expect(await made(own)).toHaveLength(3);
  await expect(made(own - 1)).rejects.toMatchObject({
    issues: [{ loc: ['body', 'at', 'messages_and_choices', '5', 'added_prompt_token_ids'] }],
  });
});
