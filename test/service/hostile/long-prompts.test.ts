import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { builtInLanguage } from '../../../src/engines/embedded/built-in/built-in-language.ts';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import type { Engine } from '../../../src/engines/engine.ts';
import { LongTexts } from '../../../src/language/chat/long-texts.ts';
import { readLanguage } from '../../../src/language/chat/read-language.ts';
import { type RunningService, startService } from '../../../src/service/index.ts';
import { generateCheckpoint } from '../../engines/embedded/checkpoint/generated.ts';
import { sharedFolder, temporaryFolder } from '../../support/files.ts';
import { testSeed } from '../../support/size.ts';
import { callsTo } from '../harness.ts';

const parent = sharedFolder();

/** Sends a request, and counts how often others are answered before it is. */
async function whileWatched({ call }: ReturnType<typeof callsTo>, body: object) {
  let isAnswered = false;
  const asking = call('POST', '/v1/chat/completions', body).finally(() => (isAnswered = true));
  let others = 0;
  for (; !isAnswered; others++) {
    await call('GET', '/v1/health');
    // The machine has other work.
    await pause(5);
  }
  return { answer: await asking, others };
}

describe('one request cannot hold up the others', () => {
  it('with tools that a template indents by their depth', async () => {
    const folder = await generateCheckpoint(parent, 'qwen3');
    const path = join(folder, 'chat_template.jinja');
    const template = (await readFile(path, 'utf8')).replaceAll('tool | tojson', 'tool | tojson(indent=4)');
    expect(template).toContain('indent=4');
    await writeFile(path, template);
    const engine = await createEmbeddedEngine({ threads: 1, checkpoints: [{ folder, id: 'indents' }] });
    const service = await startService({ engine, dataFolder: await temporaryFolder() });
    onTestFinished(async () => {
      await service.close();
      await engine.close();
    });
    const { call } = callsTo(service.url, service.apiKey);
    let deep: unknown = Array(30).fill(1);
    for (let level = 0; level < 450; level++) deep = [deep, ...Array(60).fill(0)];
    const tools = [
      { type: 'function', function: { name: 'f', parameters: { type: 'object', default: deep } } },
    ];
    const messages = [{ role: 'user', content: 'hi' }];
    const answer = await call('POST', '/v1/chat/completions', {
      model: 'indents',
      messages,
      tools,
      tool_choice: 'none',
    });
    expect([answer.status, answer.body.error?.message ?? answer.body.detail?.[0]?.msg]).toEqual([
      422,
      expect.stringContaining('it would make more than 16777216 characters'),
    ]);
  });

  describe('with a text of 400,000 characters', () => {
    let engine: Engine;
    let service: RunningService;
    beforeAll(async () => {
      const folder = await generateCheckpoint(parent, 'qwen2');
      engine = await createEmbeddedEngine({ threads: 1, checkpoints: [{ folder, id: 'long' }] });
      const tokenizer = engine.tokenizer('long');
      // As of published vocabularies, whose longest tokens allow texts of megabytes.
      const bytes = tokenizer.bytes.bind(tokenizer);
      tokenizer.bytes = (token) => (token === 0 ? new Uint8Array(2048) : bytes(token));
      service = await startService({ engine, dataFolder: join(parent, 'data') });
    });
    afterAll(async () => {
      await service?.close();
      await engine?.close();
    });

    const refuses = async (_: string, piece: string) => {
      const messages = [{ role: 'user', content: piece.repeat(400_000 / piece.length) }];
      const calls = callsTo(service.url, service.apiKey);
      const { answer, others } = await whileWatched(calls, { model: 'long', messages, max_tokens: 1 });
      expect([answer.status, answer.body.error?.code]).toEqual([400, 'context_length_exceeded']);
      expect(others).toBeGreaterThan(10);
    };

    it.each([
      ['spaces', ' '],
      ['one letter', 'a'],
      ['pictures', '🎲'],
    ])('%s', refuses);

    it.each([
      ['line ends', '\n'],
      ['accents', '\u0301'],
      ['pairs', 'ab'],
    ])('%s', { tags: ['long'] }, refuses);
  });
});

describe('a long text', () => {
  it('has the same tokens from the thread', async () => {
    const folder = await generateCheckpoint(await temporaryFolder(), 'llama3');
    const { tokenizer, shared } = readLanguage(folder);
    for (const [own, texts] of [
      [tokenizer, new LongTexts(shared)],
      [builtInLanguage().tokenizer, new LongTexts(builtInLanguage().shared)],
    ] as const)
      await fc.assert(
        fc.asyncProperty(fc.string({ unit: 'binary', maxLength: 400 }), async (text) => {
          const tokens = await texts.encode(text, { maxTokens: 10_000 });
          expect([...tokens]).toEqual(own.encode(text));
        }),
        { seed: testSeed, numRuns: 40 },
      );
  });

  it('ends with an error as soon as it has too many tokens, and leaves the thread for the next', async () => {
    const texts = new LongTexts(builtInLanguage().shared);
    const refused = texts.encode('some words '.repeat(100_000), { maxTokens: 1000 });
    await expect(refused).rejects.toMatchObject({
      code: 'context_length_exceeded',
      message: expect.stringContaining('more than 1000 tokens'),
    });
    expect([...(await texts.encode('some words', { maxTokens: 1000 }))]).toEqual(
      builtInLanguage().tokenizer.encode('some words'),
    );
  });
});
