import { createOpenAICompatible, type MetadataExtractor } from '@ai-sdk/openai-compatible';
import {
  APICallError,
  generateObject,
  generateText,
  type LanguageModel,
  Output,
  stepCountIs,
  streamText,
  tool,
} from 'ai';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { apiKey, baseModel, service } from './support.ts';

const prompt = 'where is order 6662';
const orderSchema = z.object({ order: z.enum(['6662', '6663']) });

/** Fields that the provider does not know: it sends its options unchanged. */
const fields = (more: Record<string, string | number | boolean | { regex: string }>) => ({
  providerOptions: { service: more },
});
const shaped = (regex: string) => fields({ structured_outputs: { regex } });

const bodySchema = z.object({
  choices: z.array(
    z.object({
      logprobs: z
        .object({
          content: z.array(z.object({ token: z.string(), logprob: z.number() })).nullish(),
        })
        .nullish(),
    }),
  ),
});
const logprobsOf = (body: unknown) => bodySchema.parse(body).choices[0]?.logprobs?.content ?? [];

/** The provider passes log-probabilities through. */
const metadataExtractor: MetadataExtractor = {
  extractMetadata: async ({ parsedBody }) => ({ service: { logprobs: logprobsOf(parsedBody) } }),
  createStreamExtractor: () => {
    const logprobs: { token: string; logprob: number }[] = [];
    return {
      processChunk: (chunk) => logprobs.push(...logprobsOf(chunk)),
      buildMetadata: () => ({ service: { logprobs } }),
    };
  },
};

describe('the AI SDK’s provider for services of this format', () => {
  const running = service();
  let model: LanguageModel;
  let connect: (key: string, id?: string) => LanguageModel;

  beforeAll(() => {
    connect = (key, id = baseModel) =>
      createOpenAICompatible({
        name: 'service',
        baseURL: `${running.url}/v1`,
        apiKey: key,
        includeUsage: true,
        supportsStructuredOutputs: true,
        metadataExtractor,
      })(id);
    model = connect(apiKey);
  });

  describe('generates', () => {
    it('the same from a trained model, whose choices carry what training needs', async () => {
      const body = { entity: 'team', project: 'project', name: 'streamed', base_model: baseModel };
      const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
      const init = { method: 'POST', headers, body: JSON.stringify(body) };
      expect((await fetch(`${running.url}/v1/preview/models`, init)).status).toBe(200);
      const trained = connect(apiKey, 'team/project/streamed');
      const settings = { prompt, seed: 4, temperature: 0.5, ...shaped('[a-z]{6}') };
      const whole = await generateText({ model: trained, ...settings });
      const streamed = streamText({ model: trained, ...settings });
      expect(await streamed.text).toBe(whole.text);
      expect((await generateText({ model, ...settings })).text).toBe(whole.text);
      expect(await streamed.usage).toMatchObject({ outputTokens: whole.usage.outputTokens });
    });

    it('text, and reports the usage', async () => {
      const result = await generateText({ model, prompt, seed: 1, temperature: 0.5, ...shaped('[a-z]{6}') });
      expect(result.text).toMatch(/^[a-z]{6}$/);
      expect(result.finishReason).toBe('stop');
      expect(result.response.modelId).toBe(baseModel);
      expect(result.usage.totalTokens).toBe(
        (result.usage.inputTokens ?? 0) + (result.usage.outputTokens ?? 0),
      );
      expect(result.usage.outputTokens).toBeGreaterThan(0);
    });

    it('the same text in a stream', async () => {
      const request = { model, prompt, seed: 1, ...shaped('[a-z]{16}') };
      const { text, usage } = await generateText(request);
      const result = streamText(request);
      const pieces: string[] = [];
      for await (const piece of result.textStream) pieces.push(piece);
      expect(pieces.join('')).toBe(text);
      expect(pieces.length).toBeGreaterThan(1);
      expect(await result.finishReason).toBe('stop');
      expect(await result.usage).toMatchObject({ totalTokens: usage.totalTokens });
    });

    it('no more tokens than requested', async () => {
      const request = { model, prompt, seed: 1, ...shaped('[a-z]{4}-[a-z]{50}') };
      const short = await generateText({ ...request, maxOutputTokens: 2 });
      expect(short).toMatchObject({ finishReason: 'length', usage: { outputTokens: 2 } });
      const stopped = await generateText({ ...request, stopSequences: ['-'] });
      expect(stopped).toMatchObject({ finishReason: 'stop', text: expect.stringMatching(/^[a-z]{4}$/) });
    });

    it('log-probabilities, whole and in a stream', async () => {
      const more = fields({ logprobs: true, top_logprobs: 1, structured_outputs: { regex: '[a-z]{8}' } });
      const request = { model, prompt, seed: 4, ...more };
      const whole = await generateText(request);
      const stream = streamText(request);
      await stream.consumeStream();
      const logprobs = whole.providerMetadata?.service?.logprobs;
      expect(logprobs).toHaveLength(whole.usage.outputTokens ?? 0);
      expect(await stream.providerMetadata).toMatchObject({ service: { logprobs } });
    });

    it('reasoning before the text, whole and in a stream', async () => {
      const more = fields({ reasoningEffort: 'low', structured_outputs: { regex: '(done|sorry)' } });
      const request = { model, prompt, seed: 9, ...more };
      const whole = await generateText(request);
      expect(whole.text).toMatch(/^(done|sorry)$/);
      expect(whole.reasoningText).toEqual(expect.stringMatching(/./s));
      const stream = streamText(request);
      await stream.consumeStream();
      expect(await stream.text).toBe(whole.text);
      expect(await stream.reasoningText).toBe(whole.reasoningText);
    });
  });

  describe('shapes its replies', () => {
    const schema = z.object({
      verdict: z.enum(['done', 'sorry']),
      refund: z.boolean(),
      place: z.object({ aisle: z.enum(['a', 'b']) }).nullable(),
    });

    it('by a schema', async () => {
      const { output } = await generateText({
        model,
        prompt,
        seed: 1,
        output: Output.object({ schema }),
      });
      expect(schema.parse(output)).toEqual(output);
    });

    it('by a schema, in a stream', async () => {
      const result = streamText({
        model,
        prompt,
        seed: 1,
        output: Output.object({ schema }),
      });
      const partial: unknown[] = [];
      for await (const part of result.partialOutputStream) partial.push(part);
      const output = await result.output;
      expect(schema.parse(output)).toEqual(output);
      expect(partial.at(-1)).toEqual(output);
    });

    it('by a choice', async () => {
      const options = ['done', 'sorry'] as const;
      const { output } = await generateText({
        model,
        prompt,
        seed: 1,
        output: Output.choice({ options: [...options] }),
      });
      expect(options).toContain(output);
    });

    it('by a list of a schema', async () => {
      const request = { model, prompt, seed: 2, maxOutputTokens: 300 };
      const { output } = await generateText({
        ...request,
        output: Output.array({ element: z.enum(['x', 'y']) }),
      });
      expect(z.array(z.enum(['x', 'y'])).parse(output)).toEqual(output);
    });

    it('by a schema, the older way', async () => {
      const { object } = await generateObject({ model, prompt, seed: 1, schema });
      expect(schema.parse(object)).toEqual(object);
    });
  });

  describe('calls tools', () => {
    const executed: unknown[] = [];
    const track = tool({
      description: 'find an order',
      inputSchema: orderSchema,
      execute: (input) => {
        executed.push(input);
        return 'on its way';
      },
    });
    const refund = tool({ description: 'refund an order', inputSchema: orderSchema });

    it.each([
      ['it must choose from', 'required'],
      ['it is told by name', { type: 'tool', toolName: 'refund' }],
    ] as const)('that %s', async (_, toolChoice) => {
      const { toolCalls, finishReason } = await generateText({
        model,
        prompt,
        seed: 1,
        tools: { refund },
        toolChoice,
      });
      expect(toolCalls.length).toBeGreaterThan(0);
      for (const { toolName, input } of toolCalls) {
        expect(toolName).toBe('refund');
        expect(orderSchema.parse(input)).toEqual(input);
      }
      expect(finishReason).toBe('tool-calls');
    });

    it('and continues with their results', async () => {
      const { steps, text } = await generateText({
        model,
        prompt,
        seed: 1,
        tools: { track },
        toolChoice: { type: 'tool', toolName: 'track' },
        stopWhen: stepCountIs(2),
        prepareStep: ({ stepNumber }) => (stepNumber === 0 ? {} : { toolChoice: 'none' }),
        maxOutputTokens: 60,
        ...fields({ parallel_tool_calls: false }),
      });
      expect(steps).toHaveLength(2);
      expect(orderSchema.parse(executed.at(-1))).toEqual(executed.at(-1));
      expect(steps[0]?.toolResults[0]?.output).toBe('on its way');
      expect(steps[1]?.toolCalls).toEqual([]);
      expect(steps[1]?.usage.inputTokens).toBeGreaterThan(steps[0]?.usage.inputTokens ?? 0);
      expect(text).toEqual(expect.any(String));
    });

    it('in a stream, piece by piece', async () => {
      const result = streamText({
        model,
        prompt,
        seed: 1,
        tools: { refund },
        toolChoice: { type: 'tool', toolName: 'refund' },
      });
      const inputs = new Map<string, string>();
      for await (const part of result.stream)
        if (part.type === 'tool-input-delta') inputs.set(part.id, (inputs.get(part.id) ?? '') + part.delta);
      const calls = await result.toolCalls;
      expect(calls.length).toBeGreaterThan(0);
      for (const { toolCallId, input } of calls)
        expect(orderSchema.parse(input)).toEqual(JSON.parse(inputs.get(toolCallId) ?? ''));
      expect(await result.finishReason).toBe('tool-calls');
    });
  });

  describe('is refused', () => {
    const rejection = (promise: PromiseLike<unknown>): Promise<unknown> =>
      Promise.resolve(promise).then(
        () => undefined,
        (error: unknown) => error,
      );

    it.each([
      ['with a wrong key', 401, 'wrong', baseModel, {}],
      ['with an unknown model', 404, apiKey, 'e/p/nobody', {}],
      ['with a field out of range', 422, apiKey, baseModel, { temperature: 3 }],
    ])('%s, with a message for people', async (_, statusCode, key, id, more) => {
      const error = await rejection(
        generateText({ model: connect(key, id), prompt, maxRetries: 0, ...more }),
      );
      expect(APICallError.isInstance(error)).toBe(true);
      expect(error).toMatchObject({ statusCode, isRetryable: false });
      expect(error).toMatchObject({ message: expect.stringMatching(/key|nobody|temperature/) });
    });

    it('when it gives up', async () => {
      const abortSignal = AbortSignal.abort(new Error('enough'));
      const error = await rejection(generateText({ model, prompt, abortSignal, maxRetries: 0 }));
      expect(String(error)).toContain('enough');
    });
  });
});
