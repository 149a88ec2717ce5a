import { generateText, isStepCount, type ModelMessage, tool } from 'ai';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { defineEnvironment, train } from '../../src/index.ts';
import type { ChatFormat, Tokenizer } from '../../src/language/tokenizer/tokenizer.ts';
import { format, shown, tokenizer, tokensOf } from '../language/gpt-oss.ts';
import { temporaryFolder } from '../support/files.ts';
import { baseModel, ScriptedEngine } from '../support/scripted-engine.ts';
import { frames, type Json, start } from './harness.ts';
import { rl, sft } from './jobs/support.ts';

/** An engine whose model is of gpt-oss. Its template writes no date, unless it is the published one. */
class GptOssEngine extends ScriptedEngine {
  override readonly baseModels = [
    { ...baseModel, contextLength: 4096, vocabularySize: tokenizer.vocabularySize },
  ];
  isPublished = false;

  override tokenizer(): Tokenizer {
    return tokenizer;
  }

  override chatFormat(): ChatFormat {
    const template = format.template.replace('strftime_now("%Y-%m-%d")', '"2026-01-02"');
    return this.isPublished ? format : { ...format, template };
  }

  /** The next replies, each ended by its last token. */
  script(...texts: string[]): void {
    this.replies = texts.map((text) => {
      const tokens = tokensOf(text);
      const last = tokens.at(-1) ?? 0;
      return format.otherEndTokens.includes(last) ? { tokens, stop: last } : { tokens };
    });
  }
}

const tools = [
  {
    type: 'function',
    function: {
      name: 'add',
      description: 'Adds.',
      parameters: { type: 'object', properties: { a: { type: 'integer' } } },
    },
  },
];
const thought = '<|channel|>analysis<|message|>I add.<|end|><|start|>assistant';
const call = `${thought}<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"a":1}<|call|>`;
const final =
  '<|channel|>analysis<|message|>So two.<|end|><|start|>assistant<|channel|>final<|message|>Two.<|return|>';
const [userMessage = 0] = tokenizer.encode('user');
const callEnd = tokenizer.special.get('<|call|>');

async function open() {
  const engine = new GptOssEngine();
  return { ...(await start({ engine })), engine };
}

describe('a chat with gpt-oss', () => {
  test('answers with reasoning and a call, which its own token ends', async () => {
    const { chat, engine } = await open();
    engine.script(call);
    const { status, body } = await chat({ tools, reasoning_effort: 'high' });
    expect([status, body.detail]).toEqual([200, undefined]);
    expect(body.choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      stop_reason: callEnd,
      message: {
        content: null,
        reasoning_content: 'I add.',
        tool_calls: [{ function: { name: 'add', arguments: '{"a":1}' } }],
      },
    });
    expect(engine.requests[0]).toMatchObject({
      stopTokens: expect.arrayContaining([callEnd]),
      constraint: null,
    });
    expect(shown(engine.requests[0]?.prompt ?? [])).toContain('Reasoning: high');
  });

  test('streams the same', async () => {
    const { raw, engine } = await open();
    engine.script(call, final);
    const streamed = async () => {
      const body = { messages: [{ role: 'user', content: 'hi' }], tools, stream: true };
      const text = await (await raw('POST', '/v1/chat/completions', body)).text();
      const joined = { reasoning: '', content: '', name: '', arguments: '', end: '' };
      for (const { delta, finish_reason: end } of frames(text).flatMap(({ choices }) => choices)) {
        joined.reasoning += delta.reasoning_content ?? '';
        joined.content += delta.content ?? '';
        joined.end += end ?? '';
        for (const { function: called } of delta.tool_calls ?? []) {
          joined.name += called.name ?? '';
          joined.arguments += called.arguments ?? '';
        }
      }
      return joined;
    };
    expect(await streamed()).toEqual({
      ...{ reasoning: 'I add.', content: '', name: 'add', arguments: '{"a":1}', end: 'tool_calls' },
    });
    expect(await streamed()).toEqual({
      reasoning: 'So two.',
      content: 'Two.',
      name: '',
      arguments: '',
      end: 'stop',
    });
  });

  test.each([
    [{ response_format: { type: 'json_object' } }, 'response_format'],
    [{ structured_outputs: { regex: 'a' } }, 'structured_outputs'],
    [{ tools, tool_choice: 'required' }, 'tool_choice'],
    [{ tools, tool_choice: { type: 'function', function: { name: 'add' } } }, 'tool_choice'],
    [{ tools: [{ ...tools[0], function: { ...tools[0]!.function, strict: true } }] }, 'strict'],
    [{ reasoning_effort: 'none' }, 'low, medium or high'],
    [{ reasoning_effort: 'minimal' }, 'low, medium or high'],
  ])('refuses what its replies cannot be held to: %j', async (fields, named) => {
    const { chat, engine } = await open();
    const { status, body } = await chat(fields);
    expect(status).toBe(422);
    expect(JSON.stringify(body.detail)).toContain(named);
    expect(engine.requests).toEqual([]);
  });

  test('takes one call at a time, tools that are not called, and tokens of channels', async () => {
    const { chat, engine } = await open();
    engine.script(final);
    for (const fields of [
      { tools, parallel_tool_calls: false },
      { tools, tool_choice: 'none' },
      { allowed_token_ids: [callEnd, format.channels?.message, format.endToken] },
      { reasoning_effort: 'low' },
    ])
      expect((await chat(fields)).body.choices[0].message.content).toBe('Two.');
  });
});

describe('training of gpt-oss', () => {
  const user = { role: 'user', content: 'hi' };
  const result = { role: 'tool', content: 'two', tool_call_id: 'c' };

  /** What trains of each sequence of the latest batch, and what comes before it. */
  const trainedBy = (engine: GptOssEngine) =>
    (engine.trained.at(-1)?.datums ?? []).map(({ tokens, spans }) => ({
      tokens: [...tokens],
      replies: spans.map(({ start: at, length }) => shown(tokens.slice(at, at + length))),
    }));

  test.each([false, true])(
    'by rewards has the sampled tokens after the prompts that they were sampled for; with a date: %s',
    async (isPublished) => {
      const { chat, call: request, createModel, follow, engine } = await open();
      engine.isPublished = isPublished;
      const model = await createModel();
      engine.script(call, final, final);
      const messages: Json[] = [user];
      const history: Json[] = [user];
      const name = `${model.entity}/${model.project}/${model.name}`;
      for (const added of [[result], [{ role: 'user', content: 'Sure?' }], []]) {
        const { body } = await chat({ model: name, messages, tools, return_token_ids: true });
        const [choice] = body.choices;
        messages.push({ ...choice.message, token_ids: choice.token_ids }, ...added);
        history.push({ ...choice, prompt_token_ids: body.prompt_token_ids }, ...added);
      }
      const { status, body } = await request('POST', rl, {
        model_id: model.id,
        trajectory_groups: [
          { trajectories: [1, 0].map((reward) => ({ messages_and_choices: history, tools, reward })) },
        ],
      });
      expect([status, body.detail]).toEqual([200, undefined]);
      expect((await follow(body.id)).at(-1)).toMatchObject({ type: 'training_ended' });
      const prompts = engine.requests.map(({ prompt }) => prompt);
      // The third prompt has no reasoning of the replies before it.
      expect(prompts[1]).toEqual([
        ...prompts[0]!,
        ...tokensOf(call),
        ...prompts[1]!.slice(prompts[0]!.length + tokensOf(call).length),
      ]);
      expect(shown(prompts[2]!)).not.toContain('I add.');
      const sequences = prompts.map((prompt, index) => [...prompt, ...tokensOf(index === 0 ? call : final)]);
      const trained = trainedBy(engine).slice(0, 3);
      const sorted = (lists: number[][]) => lists.map((list) => list.join()).sort();
      expect(sorted(trained.map(({ tokens }) => tokens))).toEqual(sorted(sequences));
      expect(trained.flatMap(({ replies }) => replies).sort()).toEqual([call, final, final].sort());
    },
  );

  test('a loop of calls is one sequence, where the template writes no date', async () => {
    const { chat, call: request, createModel, follow, engine } = await open();
    const model = await createModel();
    engine.script(call, call, final);
    const history: Json[] = [user];
    const messages: Json[] = [user];
    for (const added of [[result], [result], []]) {
      const { body } = await chat({
        model: `${model.entity}/${model.project}/${model.name}`,
        messages,
        tools,
      });
      const [choice] = body.choices;
      messages.push({ ...choice.message, token_ids: choice.token_ids }, ...added);
      history.push(choice, ...added);
    }
    const trajectories = [1, 0].map((reward) => ({ messages_and_choices: history, tools, reward }));
    const { body } = await request('POST', rl, { model_id: model.id, trajectory_groups: [{ trajectories }] });
    expect((await follow(body.id)).at(-1)).toMatchObject({ type: 'training_ended' });
    const [first, ...others] = trainedBy(engine);
    expect(others).toHaveLength(1);
    expect(first?.replies).toEqual([call, call, final]);
    expect(first?.tokens).toEqual([...engine.requests[2]!.prompt, ...tokensOf(final)]);
  });

  test('of an agent with tools has what it sampled, though a later prompt shows less of it', async () => {
    const { service, engine } = await open();
    engine.isPublished = true;
    const next = engine.generate.bind(engine);
    const asked: { prompt: readonly number[]; reply: number[] }[] = [];
    engine.generate = async (request, onDelta) => {
      const isAfterCall = request.prompt.lastIndexOf(callEnd!) > request.prompt.lastIndexOf(userMessage);
      engine.script(isAfterCall ? final : call);
      const generation = await next(request, onDelta);
      asked.push({ prompt: request.prompt, reply: generation.tokens });
      return generation;
    };
    let rollouts = 0;
    const environment = defineEnvironment({
      name: 'adding',
      scenario: z.object({ question: z.string() }),
      rollout: async ({ scenario, model, signal }) => {
        const messages: ModelMessage[] = [];
        for (const content of [scenario.question, 'Again.']) {
          messages.push({ role: 'user', content });
          const { response } = await generateText({
            model: model.languageModel,
            messages,
            tools: { add: tool({ inputSchema: z.object({ a: z.number() }), execute: () => 'two' }) },
            stopWhen: isStepCount(4),
            abortSignal: signal,
          });
          messages.push(...response.messages);
        }
        return messages.length;
      },
      rewards: { odd: () => rollouts++ % 2 },
    });
    await train({
      environment,
      scenarios: [{ question: 'One and one?' }],
      baseUrl: service.url,
      apiKey: service.apiKey,
      runDirectory: `${await temporaryFolder()}/run`,
      model: { project: 'adding', name: 'agent', baseModel: baseModel.id },
      ...{ seed: 1, steps: 1, groupsPerStep: 1, rolloutsPerGroup: 2, progress: false },
    });
    // Two questions, each with a call and an answer.
    expect(asked).toHaveLength(8);
    expect(shown(asked.at(-1)!.prompt).match(/I add/g)).toHaveLength(1);
    const key = (...tokens: (readonly number[])[]) => tokens.flat().join();
    const trained = (engine.trained[0]?.datums ?? []).flatMap(({ tokens, spans }) =>
      spans.map(({ start: at, length }) => key(tokens.slice(0, at + length))),
    );
    expect(trained.sort()).toEqual(asked.map(({ prompt, reply }) => key(prompt, reply)).sort());
  });

  test('by examples writes replies as the model does', async () => {
    const { call: request, createModel, follow, engine } = await open();
    const model = await createModel();
    const made = { id: 'c', type: 'function', function: { name: 'add', arguments: '{ "a": 1 }' } };
    const example = (...messages: object[]) => JSON.stringify({ tools, messages: [user, ...messages] });
    const train = async (line: string) => {
      const { body: upload } = await request('POST', '/v1/preview/uploads', `${line}\n`);
      const { body } = await request('POST', sft, { model_id: model.id, training_data_url: upload.url });
      return (await follow(body.id)).at(-1);
    };
    const first = { role: 'assistant', content: null, reasoning_content: 'I add.', tool_calls: [made] };
    const last = { role: 'assistant', content: 'Two.', reasoning_content: 'So two.' };
    expect(await train(example(first, result, last))).toMatchObject({ type: 'training_ended' });
    const [datum] = trainedBy(engine);
    expect(datum?.replies).toEqual([call, final]);
    expect(shown(datum!.tokens)).toContain('Reasoning: medium');
    expect(shown(datum!.tokens)).toContain('<|start|>functions.add to=assistant');
    await train(example({ ...first, content: 'First.' }));
    expect(trainedBy(engine)[0]?.replies).toEqual([
      call.replace(
        /(.*assistant)(.*)/,
        '$1<|channel|>commentary<|message|>First.<|end|><|start|>assistant$2',
      ),
    ]);
    const failed = await train(example({ ...first, tool_calls: [made, made] }));
    expect(JSON.stringify(failed)).toContain('2 tool calls in one reply');
    const early = await train(example(last, user, last));
    expect(JSON.stringify(early)).toContain('a conversation of its own');
  });
});
