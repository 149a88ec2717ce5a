import { expect, test } from 'vitest';
import { chatCompletionSchema } from '../../../src/contract/index.ts';
import type { BeamSearchRequest } from '../../../src/engines/engine.ts';
import { ScriptedEngine, special, tokensOf } from '../../support/scripted-engine.ts';
import { frames, type Json, start } from '../harness.ts';

function twoBeams(): ScriptedEngine {
  const engine = new ScriptedEngine();
  engine.replies = [
    { tokens: tokensOf('best', special.end) },
    { tokens: tokensOf('second', special.end) },
    { tokens: tokensOf('none', special.end) },
  ];
  return engine;
}

test('beam search returns n beams, best first, marked as not sampled', async () => {
  const engine = twoBeams();
  const { chat } = await start({ engine });
  const { status, body } = await chat({
    ...{ use_beam_search: true, n: 2, length_penalty: 0.5, temperature: 0.7, min_tokens: 2 },
    ...{ stop: 'x', max_tokens: 50, logprobs: true, top_logprobs: 1, return_token_ids: true },
  });
  expect(status).toBe(200);
  expect(chatCompletionSchema.parse(body)).toEqual(body);
  expect(engine.searches).toHaveLength(1);
  expect(engine.searches[0]).toMatchObject({
    ...{ width: 2, lengthPenalty: 0.5, maxTokens: 50, stopStrings: ['x'], topLogprobs: 1 },
    sampling: { temperature: 0.7, minTokens: { count: 2 } },
  });
  expect(engine.searches[0]).not.toHaveProperty('seed');
  expect(body.choices.map(({ message }: Json) => message.content)).toEqual(['best', 'second']);
  expect(body.choices.map(({ index }: Json) => index)).toEqual([0, 1]);
  expect(body.choices.map(({ sampling }: Json) => sampling.beam_search)).toEqual([true, true]);
  expect(body.usage.completion_tokens).toBe(5 + 7);
});

test('one beam and a penalty of 1 are the defaults', async () => {
  const { chat, engine } = await start();
  expect((await chat({ use_beam_search: true, length_penalty: 1 })).body.choices).toHaveLength(1);
  expect(engine.searches[0]).toMatchObject({ width: 1, lengthPenalty: 1 });
  expect((await chat({ use_beam_search: true, seed: 5 })).status).toBe(200);
  expect(engine.searches[1]).not.toHaveProperty('seed');
  expect((await chat({ use_beam_search: false, length_penalty: 1 })).status).toBe(200);
  expect(engine.searches).toHaveLength(2);
});

test('a search that finds fewer replies than beams returns those', async () => {
  class NarrowEngine extends ScriptedEngine {
    override async beamSearch(request: BeamSearchRequest) {
      return (await super.beamSearch(request)).slice(0, 1);
    }
  }
  const { chat, raw } = await start({ engine: new NarrowEngine() });
  const fields = { use_beam_search: true, n: 3, messages: [{ role: 'user', content: 'hi' }] };
  expect((await chat(fields)).body.choices).toHaveLength(1);
  const streamed = await raw('POST', '/v1/chat/completions', {
    ...{ ...fields, stream: true, return_token_ids: true },
  });
  const chunks = frames(await streamed.text());
  expect(chunks[0].prompt_token_ids).toBeDefined();
  expect(new Set(chunks.flatMap(({ choices }) => choices.map(({ index }: Json) => index)))).toEqual(
    new Set([0]),
  );
});

test('streamed beams arrive whole', async () => {
  const engine = twoBeams();
  const { raw } = await start({ engine });
  const response = await raw('POST', '/v1/chat/completions', {
    ...{ messages: [{ role: 'user', content: 'hi' }], stream: true, use_beam_search: true, n: 2 },
    ...{ return_token_ids: true, stream_options: { include_usage: true } },
  });
  const chunks = frames(await response.text());
  const choices = chunks.flatMap((chunk) => chunk.choices);
  const chunksWithText = choices.filter(({ delta }) => delta.content);
  expect(chunksWithText.map(({ index, delta, token_ids }) => [index, delta.content, token_ids])).toEqual([
    [0, 'best', tokensOf('best', special.end)],
    [1, 'second', tokensOf('second', special.end)],
  ]);
  const ends = choices.filter(({ finish_reason }) => finish_reason !== null);
  expect(ends).toMatchObject([
    { index: 0, finish_reason: 'stop', sampling: { beam_search: true } },
    { index: 1, finish_reason: 'stop', sampling: { beam_search: true } },
  ]);
  expect(chunks.at(-1).usage.completion_tokens).toBe(12);
});
