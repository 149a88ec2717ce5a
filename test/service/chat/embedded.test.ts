import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Engine } from '../../../src/engines/engine.ts';
import { type RunningService, startService } from '../../../src/service/index.ts';
import { llamaModel, testedModels, tinyModel } from '../../support/base-models.ts';
import { sharedFolder } from '../../support/files.ts';
import type { Json } from '../harness.ts';

describe.each([...testedModels, llamaModel])('with $baseModel', (tested) => {
  const { baseModel } = tested;
  let engine: Engine;
  let service: RunningService;
  const dataFolder = sharedFolder();

  beforeAll(async () => {
    const logitsProcessors = { 'test.Slow': new URL('./slow-processor.ts', import.meta.url) };
    engine = await tested.open({ logitsProcessors });
    service = await startService({ engine, dataFolder, apiKey: 'test-key' });
  });

  afterAll(async () => {
    await service?.close();
    await engine?.close();
  });

  const user = { role: 'user', content: 'hi' };
  const headers = { authorization: 'Bearer test-key' };

  async function chat(fields: object): Promise<Json> {
    const body = JSON.stringify({
      ...{ model: baseModel, messages: [user], max_tokens: 12, seed: 3, return_token_ids: true, ...fields },
    });
    const response = await fetch(`${service.url}/v1/chat/completions`, { method: 'POST', headers, body });
    const answer: Json = await response.json();
    if (response.status !== 200) throw new Error(JSON.stringify(answer));
    return answer;
  }

  const choiceOf = async (fields: object): Promise<Json> => (await chat(fields)).choices[0];
  const idOf = (text: string) => {
    const [id] = engine.tokenizer(baseModel).encode(text);
    if (id === undefined) throw new RangeError(`${text} is no token`);
    return id;
  };

  describe('every field shapes what the embedded engine samples', () => {
    const [a, b] = ['a', 'b'];

    test('biases, and what is allowed and banned', async () => {
      const toA = { logit_bias: { [idOf(a)]: 100 } };
      expect((await choiceOf(toA)).message.content).toBe('a'.repeat(12));
      const both = { allowed_token_ids: [idOf(a), idOf(b)] };
      const mixed = (await choiceOf(both)).message.content;
      expect(mixed).toMatch(/^[ab]{12}$/);
      expect((await choiceOf({ ...both, bad_words: ['a'] })).message.content).toBe('b'.repeat(12));
      expect((await choiceOf({ ...toA, bad_words: ['aa'] })).message.content).not.toContain('aa');
    });

    test('penalties', async () => {
      const fields = { allowed_token_ids: [idOf(a), idOf(b)], logit_bias: { [idOf(a)]: 5 }, temperature: 0 };
      expect((await choiceOf(fields)).message.content).toBe('a'.repeat(12));
      for (const penalty of [{ frequency_penalty: 2 }, { presence_penalty: 2 }]) {
        const lighter = { ...fields, logit_bias: { [idOf(a)]: 1 } };
        expect((await choiceOf({ ...lighter, ...penalty })).message.content).toContain('b');
      }
      const both = { ...fields, logit_bias: { [idOf(a)]: 26, [idOf(b)]: 20 } };
      expect((await choiceOf(both)).message.content).toBe('a'.repeat(12));
      expect((await choiceOf({ ...both, repetition_penalty: 2 })).message.content).toContain('b');
    });

    test('end tokens and the minimum length', async () => {
      const { endToken, otherEndTokens } = engine.chatFormat(baseModel);
      // A checkpoint may name several end tokens.
      for (const end of [endToken, ...otherEndTokens]) {
        const toEnd = { logit_bias: { [end]: 100 } };
        expect(await choiceOf(toEnd)).toMatchObject({ finish_reason: 'stop', token_ids: [end] });
        expect((await choiceOf({ ...toEnd, min_tokens: 5 })).token_ids).toHaveLength(6);
        const ignored = await choiceOf({ ...toEnd, ignore_eos: true, skip_special_tokens: false });
        expect(ignored).toMatchObject({ finish_reason: 'length', token_ids: Array(12).fill(end) });
        const text = engine.tokenizer(baseModel).text(end);
        expect(ignored.message.content).toBe(Array(12).fill(text).join(' '));
      }
      const toA = { logit_bias: { [idOf(a)]: 100 } };
      const stopped = { ...toA, stop: ['aaa'], min_tokens: 6, include_stop_str_in_output: true };
      expect(await choiceOf(stopped)).toMatchObject({
        ...{ stop_reason: null, stop_string: 'aaa', finish_reason: 'stop', message: { content: 'aaaaaa' } },
      });
      expect((await choiceOf({ ...stopped, include_stop_str_in_output: false })).message.content).toBe('aaa');
      expect(await choiceOf({ ...toA, stop_token_ids: [idOf(a)], min_tokens: 2 })).toMatchObject({
        stop_reason: idOf(a),
      });
    });

    test('seeds of the whole range, each with another reply', async () => {
      const seeds = [0, -1, 2 ** 53, -(2 ** 53), -(2 ** 63)];
      const replies = [];
      for (const seed of seeds) replies.push((await choiceOf({ seed })).token_ids.join());
      expect(new Set(replies).size).toBe(seeds.length);
      const again = await choiceOf({ seed: -(2 ** 63) });
      expect(again.token_ids.join()).toBe(replies.at(-1));
    });

    test('beams, of which the best is no worse than the greedy reply', async () => {
      const fields = { seed: null, max_tokens: 4, logprobs: true, ignore_eos: true };
      const { choices } = await chat({ ...fields, use_beam_search: true, n: 3 });
      const sum = ({ logprobs }: Json) =>
        logprobs.content.reduce((total: number, { logprob }: Json) => total + logprob, 0);
      const sums = choices.map(sum);
      expect(sums).toEqual([...sums].sort((x, y) => y - x));
      expect(new Set(choices.map(({ token_ids }: Json) => token_ids.join())).size).toBe(3);
      expect(sums[0]).toBeGreaterThanOrEqual(sum(await choiceOf({ ...fields, temperature: 0 })) - 1e-4);
    });

    test.runIf(tested.keepsLastReply)(
      'the log-probabilities of a prompt agree with those of a reply',
      async () => {
        const fields = { logprobs: true, top_logprobs: 2, max_tokens: 6, ignore_eos: true };
        const { choices, prompt_token_ids: prompt } = await chat(fields);
        const [{ token_ids: reply }] = choices;
        const scored = await chat({
          messages: [user, { role: 'assistant', content: '', token_ids: reply }],
          ...{ continue_final_message: true, prompt_logprobs: 2, max_tokens: 1 },
        });
        expect(scored.prompt_token_ids).toEqual([...prompt, ...reply]);
        // The reply cannot contain most special tokens, so its probabilities are slightly greater.
        for (const [index, token] of reply.entries()) {
          const position = scored.prompt_logprobs[prompt.length + index];
          const sampled = choices[0].logprobs.content[index].logprob;
          expect(position[token].logprob).toBeLessThan(sampled + 1e-4);
          expect(position[token].logprob).toBeGreaterThan(sampled - 0.1);
          expect(position[token].rank).toBeGreaterThanOrEqual(1);
        }
      },
    );

    test.runIf(tested === tinyModel)('reasoning, at most as long as the effort allows', async () => {
      const fields = { reasoning_effort: 'low', max_tokens: 40, allowed_token_ids: [idOf(a)] };
      const { message, token_ids: tokens } = await choiceOf(fields);
      const { reasoning } = engine.chatFormat(baseModel);
      expect(tokens[0]).toBe(reasoning?.tokens?.open);
      // A line break follows the tag.
      expect(tokens.indexOf(reasoning?.tokens?.close)).toBe(2 + 512 / 16);
      expect(message).toMatchObject({ reasoning: 'a'.repeat(32), content: expect.stringMatching(/^a+$/) });
      const hidden = await choiceOf({ ...fields, include_reasoning: false });
      expect(hidden.message).toEqual({ role: 'assistant', content: message.content, refusal: null });
    });

    test('a salt, which separates the cached prompts of others', async () => {
      const messages = [
        { role: 'user', content: 'a prompt of more than sixteen tokens, all of them 1 2 3 4 5 6 7' },
      ];
      const cached = async (cache_salt: string) =>
        (await chat({ messages, cache_salt })).usage.prompt_tokens_details.cached_tokens;
      expect([await cached('mine'), await cached('mine'), await cached('yours')]).toEqual([
        0,
        expect.toSatisfy((tokens: number) => tokens >= 16),
        0,
      ]);
    });

    test.each<[string, object, RegExp]>([
      ['a grammar', { structured_outputs: { grammar: 'root ::= "x" [ab]? "y"' } }, /^x[ab]?y$/],
      ['a choice', { structured_outputs: { choice: ['yes', 'no'] } }, /^(yes|no)$/],
      [
        'white space of its own',
        { structured_outputs: { json: { const: [1, 2] }, whitespace_pattern: '\\n' } },
        /^\n*\[\n1\n,\n2\n\]\n*$/,
      ],
      ['no white space', { structured_outputs: { json: { const: [1, 2] } } }, /^\[1,2\]$/],
    ])('%s', async (_name, fields, expected) => {
      expect((await choiceOf(fields)).message.content).toMatch(expected);
    });
  });

  test.runIf(tested.keepsLastReply)('a client that disconnects ends the decoding of its reply', async () => {
    const length = 400;
    const fields = { ignore_eos: true, max_tokens: length, temperature: 1 };
    const whole = await chat({ ...fields, cache_salt: 'whole' });
    const tokens: number[] = whole.choices[0].token_ids;
    expect(tokens).toHaveLength(length);

    const { hostname, port } = new URL(service.url);
    const socket = connect(Number(port), hostname);
    const body = JSON.stringify({
      ...{ model: baseModel, messages: [user], seed: 3, ...fields, cache_salt: 'left' },
      ...{ stream: true, return_token_ids: true, logits_processors: ['test.Slow'] },
    });
    const head = ['POST /v1/chat/completions HTTP/1.1', 'host: x', `authorization: ${headers.authorization}`];
    socket.write(`${[...head, `content-length: ${Buffer.byteLength(body)}`].join('\r\n')}\r\n\r\n${body}`);
    let seen = '';
    while (seen.split('"token_ids"').length < 7) seen += String((await once(socket, 'data'))[0]);
    socket.destroy();
    await once(socket, 'close');

    // All replies advance together, so that one as long as this one outlasts whatever is left of it. How much of it was
    // decoded, its cached keys and values tell.
    await chat({ ...fields, cache_salt: 'other' });
    const probe = await chat({
      messages: [user, { role: 'assistant', content: '', token_ids: tokens }],
      ...{ continue_final_message: true, max_tokens: 1, cache_salt: 'left' },
    });
    const decoded = probe.usage.prompt_tokens_details.cached_tokens - whole.prompt_token_ids.length;
    expect(probe.usage.prompt_tokens).toBe(whole.prompt_token_ids.length + length);
    expect(decoded).toBeGreaterThan(0);
    expect(decoded).toBeLessThan(length / 4);
  });
});
