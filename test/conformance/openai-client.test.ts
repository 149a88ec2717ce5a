import OpenAI from 'openai';
import { zodFunction, zodResponseFormat } from 'openai/helpers/zod';
import type {
  ChatCompletionCreateParamsNonStreaming,
  ChatCompletionMessageParam,
  ChatCompletionTool,
} from 'openai/resources/chat/completions';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { testedModels, tinyModel } from '../support/base-models.ts';
import { apiKey, service } from './support.ts';

const messages: ChatCompletionMessageParam[] = [{ role: 'user', content: 'where is order 6662' }];
/** Fields that the client does not know: it sends them unchanged. */
const shaped = (pattern: string): object => ({ structured_outputs: { regex: pattern } });

const parameters = {
  type: 'object',
  properties: { order: { type: 'string', enum: ['6662', '6663'] } },
  required: ['order'],
  additionalProperties: false,
};
const tools: ChatCompletionTool[] = ['track', 'refund'].map((name) => ({
  type: 'function',
  function: { name, description: `${name} an order`, parameters },
}));
const orderSchema = z.object({ order: z.enum(['6662', '6663']) });

describe.each(testedModels)('the openai client and $baseModel', (tested) => {
  const { baseModel } = tested;
  const running = service(tested);
  const asked = { model: baseModel, messages, seed: 1 };
  let client: OpenAI;
  const format = () => running.engine.chatFormat(baseModel);
  /** A checkpoint with random weights begins no call by itself. */
  const toCall = (): Record<string, number> => {
    const begin = Object.values(format().calls?.tokens ?? {})[0];
    return begin === undefined ? {} : { [begin]: 9 };
  };

  beforeAll(() => {
    client = new OpenAI({ baseURL: `${running.url}/v1`, apiKey, project: 'team/project', maxRetries: 0 });
  });

  describe('samples:', () => {
    it('lists the models', async () => {
      const ids: string[] = [];
      for await (const model of client.models.list()) {
        expect(model).toMatchObject({ object: 'model', created: expect.any(Number) });
        ids.push(model.id);
      }
      expect(ids).toContain(baseModel);
    });

    it('finds a model by its name, with slashes and a step in it', async () => {
      const sent = await fetch(`${running.url}/v1/preview/models`, {
        method: 'POST',
        headers: { authorization: `Bearer ${apiKey}` },
        body: JSON.stringify({ entity: 'team', project: 'desk', name: 'agent', base_model: baseModel }),
      });
      expect(sent.status).toBe(200);
      for (const id of [baseModel, 'team/desk/agent', 'team/desk/agent:step0'])
        expect(await client.models.retrieve(id)).toMatchObject({ id, object: 'model', root: baseModel });
      const missing = client.models.retrieve('team/desk/nobody');
      await expect(missing).rejects.toBeInstanceOf(OpenAI.NotFoundError);
      await expect(missing).rejects.toThrow(/404 The model "team\/desk\/nobody" does not exist/);
    });

    it('with an OPENAI_PROJECT_ID that means nothing here', async () => {
      const elsewhere = client.withOptions({ project: 'proj_abc', organization: 'org_abc' });
      expect((await elsewhere.models.list()).data.length).toBeGreaterThan(0);
      const { choices } = await elsewhere.chat.completions.create({ ...asked, ...shaped('yes') });
      expect(choices[0]?.message.content).toBe('yes');
    });

    it('a whole reply, with its usage and the request’s id', async () => {
      const { data, response, request_id } = await client.chat.completions
        .create({ model: baseModel, messages, seed: 1, ...shaped('it is (on its way|lost)') })
        .withResponse();
      const [choice] = data.choices;
      expect(choice?.message).toMatchObject({ role: 'assistant', content: expect.stringMatching(/^it is/) });
      expect(choice?.finish_reason).toBe('stop');
      expect(data).toMatchObject({ object: 'chat.completion', model: baseModel });
      expect(data.usage?.total_tokens).toBe(
        (data.usage?.prompt_tokens ?? 0) + (data.usage?.completion_tokens ?? 0),
      );
      expect(response.headers.get('x-request-id')).toBe(request_id);
    });

    it('a stream that says the same, and its usage at the end', async () => {
      const request = { model: baseModel, messages, seed: 2, ...shaped('[a-z]{20}') };
      const whole = await client.chat.completions.create(request);
      const chunks = [];
      const stream = await client.chat.completions.create({
        ...request,
        stream: true,
        stream_options: { include_usage: true },
      });
      for await (const chunk of stream) chunks.push(chunk);
      const content = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('');
      expect(content).toBe(whole.choices[0]?.message.content);
      expect(chunks.at(-1)).toMatchObject({
        choices: [],
        usage: { total_tokens: whole.usage?.total_tokens },
      });
      expect(chunks.filter(({ usage }) => usage)).toHaveLength(1);
      expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
    });

    it('a stream that its own helper joins', async () => {
      const request = { model: baseModel, messages, seed: 2, n: 2, logprobs: true, ...shaped('[a-z]{9}') };
      const whole = await client.chat.completions.create(request);
      const stream = client.chat.completions.stream({ ...request, stream_options: { include_usage: true } });
      const final = await stream.finalChatCompletion();
      expect(final.choices.map(({ message }) => message.content)).toEqual(
        whole.choices.map(({ message }) => message.content),
      );
      const [streamed, expected] = [final, whole].map(({ choices }) => choices[1]?.logprobs?.content ?? []);
      expect(streamed?.map(({ token, bytes }) => [token, bytes])).toEqual(
        expected?.map(({ token, bytes }) => [token, bytes]),
      );
      // After a cached prompt, the logits of a checkpoint may round differently.
      for (const [at, { logprob }] of (streamed ?? []).entries())
        expect(logprob).toBeCloseTo(expected?.[at]?.logprob ?? Number.NaN, 5);
      expect(final.usage?.completion_tokens).toBe(whole.usage?.completion_tokens);
    });

    it('a stream that the client leaves in the middle', async () => {
      const request = { ...asked, max_completion_tokens: 400, ...shaped('[a-z]*') };
      const stream = await client.chat.completions.create({ ...request, stream: true });
      for await (const _chunk of stream) break;
      expect(stream.controller.signal.aborted).toBe(true);
    });

    it('several choices, the same ones for the same seed', async () => {
      const request = { ...asked, n: 3, seed: 11, ...shaped('[a-z]{12}') };
      const texts = async () => {
        const { choices } = await client.chat.completions.create(request);
        expect(choices.map(({ index }) => index)).toEqual([0, 1, 2]);
        return choices.map(({ message }) => message.content);
      };
      const first = await texts();
      expect(new Set(first).size).toBe(3);
      expect(await texts()).toEqual(first);
    });

    it('up to a stop string', async () => {
      const request = { ...asked, stop: ['-'], ...shaped('[a-z]{4}-[a-z]{4}') };
      const { choices } = await client.chat.completions.create(request);
      expect(choices[0]?.message.content).toMatch(/^[a-z]{4}$/);
      expect(choices[0]?.finish_reason).toBe('stop');
    });

    it('up to a number of tokens', async () => {
      const request = { ...asked, max_completion_tokens: 3, ...shaped('[a-z]{100}') };
      const { choices, usage } = await client.chat.completions.create(request);
      expect(choices[0]?.finish_reason).toBe('length');
      expect(usage?.completion_tokens).toBe(3);
    });

    it('log-probabilities, of the tokens and of their alternatives', async () => {
      const request = { ...asked, logprobs: true, top_logprobs: 2, ...shaped('[ab]{6}') };
      const { choices } = await client.chat.completions.create(request);
      const content = choices[0]?.logprobs?.content ?? [];
      const bytes = content.flatMap((token) => token.bytes ?? []);
      expect(Buffer.from(bytes).toString()).toContain(choices[0]?.message.content);
      for (const { logprob, top_logprobs } of content) {
        expect(logprob).toBeLessThanOrEqual(0);
        expect(top_logprobs.length).toBeLessThanOrEqual(2);
        expect(top_logprobs[0]?.logprob).toBeGreaterThanOrEqual(logprob);
      }
      expect(content.some(({ top_logprobs }) => top_logprobs.length === 2)).toBe(true);
    });

    it('with fields of the interface that the client does not know', async () => {
      const greedy: object = { top_k: 1, return_token_ids: true, ...shaped('[a-z]{8}') };
      const texts = [1, 2].map(async (seed) => {
        const completion = await client.chat.completions.create({
          model: baseModel,
          messages,
          seed,
          ...greedy,
        });
        expect(completion).toMatchObject({
          prompt_token_ids: expect.arrayContaining([expect.any(Number)]),
          choices: [{ token_ids: expect.arrayContaining([expect.any(Number)]) }],
        });
        return completion.choices[0]?.message.content;
      });
      const [first, second] = await Promise.all(texts);
      expect(first).toBe(second);
      const likely: object = { min_p: 1, ...shaped('[a-z]{8}') };
      const { choices } = await client.chat.completions.create({ ...asked, ...likely });
      expect(choices[0]?.message.content).toBe(first);
    });

    it('token ids in a stream: the prompt’s once, the reply’s piece by piece', async () => {
      const request = { model: baseModel, messages, seed: 5, ...shaped('[a-z]{8}') };
      const ids: object = { return_token_ids: true };
      const whole = await client.chat.completions.create({ ...request, ...ids });
      const chunks: object[] = [];
      const stream = await client.chat.completions.create({ ...request, ...ids, stream: true });
      for await (const chunk of stream) chunks.push(chunk);
      const schema = z.object({
        prompt_token_ids: z.array(z.number()).nullish(),
        choices: z.array(z.object({ token_ids: z.array(z.number()).nullish() })),
      });
      const [first, ...rest] = chunks.map((chunk) => schema.parse(chunk));
      const sampled = [first, ...rest].flatMap((chunk) => chunk?.choices[0]?.token_ids ?? []);
      const expected = schema.parse(whole);
      expect(first?.prompt_token_ids).toEqual(expected.prompt_token_ids);
      expect(rest.every(({ prompt_token_ids }) => !prompt_token_ids)).toBe(true);
      expect(sampled).toEqual(expected.choices[0]?.token_ids);
    });

    it('usage in every chunk, if requested', async () => {
      const options: object = { continuous_usage_stats: true };
      const stream = await client.chat.completions.create({
        ...asked,
        stream: true,
        stream_options: { include_usage: true, ...options },
        ...shaped('[a-z]{8}'),
      });
      const totals: number[] = [];
      for await (const { usage } of stream) totals.push(usage?.total_tokens ?? 0);
      expect(totals.length).toBeGreaterThan(2);
      expect(totals).not.toContain(0);
      expect(totals).toEqual([...totals].sort((a, b) => a - b));
    });

    it('with fields of current clients', async () => {
      const request = {
        ...asked,
        ...{ prompt_cache_key: 'desk', safety_identifier: 'a1b2' },
        ...{ modalities: ['text' as const], function_call: 'none' as const },
        ...{ reasoning_effort: 'none' as const, tools, ...shaped('[a-z]{8}') },
      };
      const { choices } = await client.chat.completions.create(request);
      expect(choices[0]?.message).toMatchObject({ content: expect.stringMatching(/^[a-z]{8}$/) });
      expect(choices[0]?.message).not.toHaveProperty('reasoning');
      expect(choices[0]?.message).not.toHaveProperty('tool_calls');
    });

    it('refusals by name of what the models do not support', async () => {
      const refused = [
        [{ verbosity: 'low' as const }, 'verbosity'],
        [{ modalities: ['audio' as const] }, 'modalities.0'],
        [{ function_call: 'auto' as const }, 'function_call'],
        [{ functions: [{ name: 'track' }] }, 'functions'],
        [{ reasoning_effort: 'xhigh' as const }, 'reasoning_effort'],
      ] as const;
      for (const [fields, param] of refused) {
        const call = client.chat.completions.create({
          ...asked,
          ...JSON.parse(JSON.stringify(fields)),
          stream: false,
        });
        await expect(call).rejects.toMatchObject({ status: 422, param });
      }
    });

    it.runIf(tested === tinyModel).each([
      ['minimal', 16],
      ['low', 32],
    ] as const)(
      'reasoning of %s effort, which ends after %i of 512 tokens',
      async (reasoning_effort, most) => {
        const endOfReasoning = 505;
        const { choices } = await client.chat.completions.create({
          ...{ ...asked, reasoning_effort, logprobs: true, ...shaped('(done|sorry)') },
          logit_bias: { [endOfReasoning]: -100 },
        });
        const tokens = choices[0]?.logprobs?.content?.map(({ token }) => token) ?? [];
        // A line break follows the tag.
        expect(tokens.indexOf('</think>') - tokens.indexOf('<think>') - 2).toBe(most);
      },
    );

    it('reasoning before the reply, whole and in a stream', async () => {
      const request = {
        model: baseModel,
        messages,
        reasoning_effort: 'low',
        seed: 6,
        ...shaped('(done|sorry)'),
      } as const;
      const schema = z.object({ reasoning_content: z.string(), content: z.string() });
      const whole = await client.chat.completions.create(request);
      const message = schema.parse(whole.choices[0]?.message);
      expect(message.content).toMatch(/^(done|sorry)$/);
      const told = { reasoning_content: '', content: '' };
      for await (const chunk of await client.chat.completions.create({ ...request, stream: true })) {
        const delta = schema.partial().parse({ ...chunk.choices[0]?.delta });
        told.reasoning_content += delta.reasoning_content ?? '';
        told.content += delta.content ?? '';
      }
      expect(told).toEqual(message);
    });
  });

  describe('calls tools:', () => {
    const named = { type: 'function', function: { name: 'refund' } } as const;

    it.each([
      ['a named one', named, /^refund$/],
      ['one it must choose', 'required', /^(track|refund)$/],
    ] as const)('%s', async (_, tool_choice, name) => {
      const request = { ...asked, tools, tool_choice, parallel_tool_calls: false };
      const { choices } = await client.chat.completions.create(request);
      const [call] = choices[0]?.message.tool_calls ?? [];
      expect(choices[0]?.message.tool_calls).toHaveLength(1);
      expect(call).toMatchObject({ type: 'function', id: expect.stringMatching(/./) });
      if (call?.type !== 'function') throw new Error('no function call');
      expect(call.function.name).toMatch(name);
      orderSchema.parse(JSON.parse(call.function.arguments));
      expect(choices[0]?.finish_reason).toBe('tool_calls');
    });

    it.each(['auto', 'required'] as const)('those that are allowed alone (%s)', async (mode) => {
      const request = {
        ...{ ...asked, tools, n: 16, max_completion_tokens: 40, logit_bias: toCall() },
        tool_choice: { type: 'allowed_tools' as const, allowed_tools: { mode, tools: [{ ...named }] } },
      } satisfies ChatCompletionCreateParamsNonStreaming;
      const { choices } = await client.chat.completions.create(request);
      const called = choices.map(({ message }) =>
        (message.tool_calls ?? []).map((call) => (call.type === 'function' ? call.function.name : call.type)),
      );
      expect(new Set(called.flat())).toEqual(new Set(['refund']));
      if (mode === 'required') expect(called).not.toContainEqual([]);
    });

    it('a named one, and no more than one', async () => {
      const { choices } = await client.chat.completions.create({ ...asked, tools, tool_choice: named, n: 8 });
      expect(choices.map(({ message }) => message.tool_calls?.length)).toEqual(Array(8).fill(1));
    });

    it('none where it must not', async () => {
      const request = { ...asked, tools, max_completion_tokens: 20 };
      const { choices } = await client.chat.completions.create({ ...request, tool_choice: 'none' });
      expect(choices[0]?.message.tool_calls ?? []).toEqual([]);
    });

    it('piece by piece in a stream', async () => {
      const request = { ...asked, tools, tool_choice: named, parallel_tool_calls: false };
      const whole = await client.chat.completions.create(request);
      const done: { name: string; arguments: string }[] = [];
      const stream = client.chat.completions
        .stream(request)
        .on('tool_calls.function.arguments.done', (call) => done.push(call));
      const final = await stream.finalMessage();
      const [call] = whole.choices[0]?.message.tool_calls ?? [];
      if (call?.type !== 'function') throw new Error('no function call');
      expect(done).toMatchObject([{ name: 'refund', arguments: call.function.arguments }]);
      expect(final.tool_calls).toMatchObject([{ type: 'function', function: call.function }]);
      expect((await stream.finalChatCompletion()).choices[0]?.finish_reason).toBe('tool_calls');
    });

    it('and continues with their results', async () => {
      const request = { model: baseModel, tools, seed: 1 };
      const first = await client.chat.completions.create({ ...request, messages, tool_choice: named });
      const message = first.choices[0]?.message;
      const [call] = message?.tool_calls ?? [];
      if (!message || !call) throw new Error('no call');
      const second = await client.chat.completions.create({
        ...request,
        messages: [...messages, message, { role: 'tool', tool_call_id: call.id, content: 'refunded' }],
        tool_choice: 'none',
        ...shaped('(done|sorry)'),
      });
      expect(second.choices[0]?.message.content).toMatch(/^(done|sorry)$/);
      expect(second.usage?.prompt_tokens).toBeGreaterThan(first.usage?.prompt_tokens ?? 0);
    });

    it('through its runner, with arguments that zod reads', async () => {
      const seen: unknown[] = [];
      const run = client.chat.completions.runTools({
        ...asked,
        tools: [
          zodFunction({
            name: 'track',
            parameters: orderSchema,
            function: (order) => {
              seen.push(order);
              return 'on its way';
            },
          }),
        ],
        tool_choice: { type: 'function', function: { name: 'track' } },
      });
      await run.done();
      expect(orderSchema.parse(seen[0])).toEqual(seen[0]);
      expect(run.messages.at(-1)).toMatchObject({ role: 'tool', content: 'on its way' });
    });
  });

  it('trains on the choices it got', async () => {
    const model = await client.post<{ id: string }>('/preview/models', {
      body: { project: 'project', base_model: baseModel, entity: 'team', name: 'learner' },
    });
    const ids: object = { return_token_ids: true };
    const { choices, ...completion } = await client.chat.completions.create({
      ...asked,
      model: 'team/project/learner',
      tools,
      tool_choice: 'required',
      logprobs: true,
      n: 4,
      ...ids,
    });
    expect(completion.model).toBe('team/project/learner:step0');
    const trajectories = choices.map((choice, reward) => ({
      messages_and_choices: [...messages, choice],
      tools,
      reward,
    }));
    const body = { model_id: model.id, trajectory_groups: [{ trajectories }] };
    const job = await client.post<{ id: string }>('/preview/training-jobs', { body });
    const events = await client
      .get(`/preview/training-jobs/${job.id}/events`, {
        headers: { accept: 'text/event-stream' },
      })
      .asResponse();
    expect(await events.text()).toContain('training_ended');
    const trained = await client.chat.completions.create({
      ...asked,
      model: 'team/project/learner',
      tools,
    });
    expect(trained.model).toBe('team/project/learner:step1');
  });

  it('trains on choices without requesting anything for that, whole and from the stream that its helper joins', async () => {
    const model = await client.post<{ id: string }>('/preview/models', {
      body: { project: 'project', base_model: baseModel, entity: 'team', name: 'unasked' },
    });
    const request = { ...asked, model: 'team/project/unasked', tools, tool_choice: 'required' } as const;
    const whole = await client.chat.completions.create({ ...request, n: 2 });
    const streamed = await client.chat.completions
      .stream({ ...request, seed: 9, n: 2 })
      .finalChatCompletion();
    const trajectories = [...whole.choices, ...streamed.choices].map((choice, reward) => ({
      messages_and_choices: [...messages, choice],
      tools,
      reward,
    }));
    const body = { model_id: model.id, trajectory_groups: [{ trajectories }] };
    const job = await client.post<{ id: string }>('/preview/training-jobs', { body });
    const events = client.get(`/preview/training-jobs/${job.id}/events`, {
      headers: { accept: 'text/event-stream' },
    });
    const text = await (await events.asResponse()).text();
    const [, difference] = /"logprob_difference_max":([^,}]+)/.exec(text) ?? [];
    expect(text).toContain('training_ended');
    expect(Number(difference)).toBeLessThan(1e-4);
  });

  describe('shapes its replies:', () => {
    const place = z.object({ aisle: z.enum(['a', 'b']), shelf: z.union([z.literal(1), z.literal(2)]) });
    const schema = z.object({
      verdict: z.enum(['done', 'sorry']),
      refund: z.boolean(),
      from: place,
      to: place.nullable(),
      tags: z.array(z.enum(['x', 'y'])).max(2),
    });

    it('by a zod schema', async () => {
      const completion = await client.chat.completions.parse({
        ...asked,
        response_format: zodResponseFormat(schema, 'verdict'),
      });
      const parsed = completion.choices[0]?.message.parsed;
      expect(schema.parse(parsed)).toEqual(parsed);
    });

    it('by a zod schema, in a stream', async () => {
      const stream = client.chat.completions.stream({
        ...asked,
        response_format: zodResponseFormat(schema, 'verdict'),
      });
      const completion = await stream.finalChatCompletion();
      const parsed = completion.choices[0]?.message.parsed;
      expect(schema.parse(parsed)).toEqual(parsed);
    });

    it('by a JSON schema', async () => {
      const { choices } = await client.chat.completions.create({
        ...asked,
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'order', description: 'an order', strict: true, schema: parameters },
        },
      });
      orderSchema.parse(JSON.parse(choices[0]?.message.content ?? ''));
    });
  });

  describe('is refused:', () => {
    const rejection = (promise: PromiseLike<unknown>): Promise<unknown> =>
      Promise.resolve(promise).then(
        () => undefined,
        (error: unknown) => error,
      );

    it('with a wrong key', async () => {
      const stranger = client.withOptions({ apiKey: 'wrong' });
      const error = await rejection(stranger.chat.completions.create(asked));
      expect(error).toBeInstanceOf(OpenAI.AuthenticationError);
      expect(error).toMatchObject({ status: 401, type: 'authentication_error' });
      expect(String(error)).toMatch(/key/i);
      expect(await rejection(stranger.models.list())).toBeInstanceOf(OpenAI.AuthenticationError);
    });

    it('with an unknown model, by its name', async () => {
      const error = await rejection(client.chat.completions.create({ model: 'e/p/nobody', messages }));
      expect(error).toBeInstanceOf(OpenAI.NotFoundError);
      expect(error).toMatchObject({ status: 404, requestID: expect.stringMatching(/./) });
      expect(String(error)).toContain('e/p/nobody');
    });

    it.each([
      ['a value out of range', { temperature: 3 }, 'temperature'],
      ['a field that the interface does not have', { temprature: 1 }, 'temprature'],
      ['log-probabilities beside none', { top_logprobs: 2 }, 'top_logprobs'],
      ['no messages', { messages: [] }, 'messages'],
      ['a grammar that is none', { structured_outputs: { regex: '(' } }, 'structured_outputs'],
    ])('for %s, by its name', async (_, fields: object, name) => {
      const error = await rejection(client.chat.completions.create({ ...asked, ...fields }));
      expect(error).toBeInstanceOf(OpenAI.UnprocessableEntityError);
      expect(error).toMatchObject({ status: 422, type: 'invalid_request_error' });
      expect(error).toMatchObject({ param: expect.stringContaining(name) });
      expect(String(error)).toContain(name);
    });

    it('the same in a stream, before it begins', async () => {
      const request = { ...asked, temperature: 3, stream: true } as const;
      const error = await rejection(client.chat.completions.create(request));
      expect(error).toBeInstanceOf(OpenAI.UnprocessableEntityError);
      const helped = client.chat.completions.stream({ model: 'e/p/nobody', messages });
      expect(await rejection(helped.finalChatCompletion())).toBeInstanceOf(OpenAI.NotFoundError);
    });

    it('when it gives up', async () => {
      const request = { ...asked, ...shaped('[a-z]*') };
      const error = await rejection(client.chat.completions.create(request, { signal: AbortSignal.abort() }));
      expect(error).toBeInstanceOf(OpenAI.APIUserAbortError);
    });
  });
});
