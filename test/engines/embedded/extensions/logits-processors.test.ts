import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createEmbeddedEngine } from '../../../../src/engines/embedded/index.ts';
import type { GenerateRequest, ProcessorCall } from '../../../../src/engines/engine.ts';
import { plainSampling } from '../../../../src/learning/index.ts';
import { Bench } from '../support.ts';

const moduleOf = (name: string) => new URL(`./modules/${name}.ts`, import.meta.url);

describe('logits processors', () => {
  let bench: Bench;

  beforeAll(async () => {
    bench = await Bench.open({
      logitsProcessors: {
        'test.Stripes': moduleOf('stripes'),
        'test.Broken': join(import.meta.dirname, 'modules/broken.ts'),
      },
    });
  });

  afterAll(() => bench.close());

  const asking = (call: Partial<ProcessorCall>, more: Partial<GenerateRequest> = {}) =>
    bench.request('hello', 3, {
      constraint: null,
      maxTokens: 12,
      sampling: {
        ...plainSampling,
        processors: [{ name: 'test.Stripes', args: [], kwargs: {}, extra: {}, ...call }],
      },
      ...more,
    });

  it('are listed by the engine under their registered names', () => {
    expect(bench.engine.logitsProcessors).toEqual(['test.Stripes', 'test.Broken']);
  });

  it('change what is sampled, each request with its own arguments', async () => {
    const reply = await bench.engine.generate(asking({ args: [8], kwargs: { raise: 100 } }));
    const { prompt } = asking({});
    reply.tokens.forEach((token, index) => {
      expect(token % 8).toBe((prompt.length + index) % 8);
    });
    const other = await bench.engine.generate(asking({ args: [3], extra: { raise: 100 } }));
    other.tokens.forEach((token, index) => {
      expect(token % 3).toBe((prompt.length + index) % 3);
    });
  });

  it('are ignored where a constraint leaves no other token', async () => {
    const [reply] = await bench.generate([
      asking(
        { args: [8], kwargs: { raise: 100 } },
        {
          constraint: {
            grammar: { type: 'regex', pattern: 'a{6}' },
          },
        },
      ),
    ]);
    expect(reply?.finishReason).toBe('stop');
  });

  it('that fail end only their request, and say why', async () => {
    const healthy = bench.engine.generate(bench.request('hello', 4));
    const failures = ['throw', 'NaN', 'infinity', 'promise', 'context', 'no function'].map((how) =>
      bench.engine.generate(asking({ name: 'test.Broken', kwargs: { how } })).then(
        () => 'no failure',
        (error: Error) => error.message.replace('The logits processor test.Broken failed: ', ''),
      ),
    );
    expect(await Promise.all(failures)).toEqual([
      'out of ideas',
      expect.stringMatching(/wrote NaN for token/),
      expect.stringMatching(/wrote Infinity for token/),
      'it returned a promise; it must be done when it returns',
      expect.stringMatching(/not extensible/),
      'its factory returned object, not a function',
    ]);
    // Which of several with the same prompt computes it depends on which of them is first.
    const { cachedTokens: _, ...reply } = await healthy;
    expect(await bench.engine.generate(bench.request('hello', 4))).toMatchObject(reply);
  });

  it('refuse invalid arguments and unregistered names', async () => {
    await expect(bench.engine.generate(asking({ args: ['x'] }))).rejects.toThrow(
      /test\.Stripes.*whole number, not x/,
    );
    await expect(bench.engine.generate(asking({ name: 'os.system' }))).rejects.toThrow(
      /Unknown logits processor os\.system. Registered: test\.Stripes, test\.Broken/,
    );
  });

  it('cannot be trained on where the trainer does not know them', async () => {
    const one = asking({ args: [8], kwargs: { raise: 3 } });
    const datums = await bench.sample([one], () => 1);
    const plain = await createEmbeddedEngine({ threads: 1 });
    try {
      await expect(
        plain.train({
          from: bench.weights,
          folder: join(bench.folder, 'unknown'),
          batches: [{ datums, loss: { type: 'cross_entropy' }, reference: null, learningRate: 1e-6 }],
          onStep: () => undefined,
        }),
      ).rejects.toThrow(/Unknown logits processor test\.Stripes. Registered: none/);
    } finally {
      await plain.close();
    }
  });

  it('stop the engine from starting where their module is missing or exports no factory', async () => {
    const start = (module: string | URL) => createEmbeddedEngine({ logitsProcessors: { 'my.Own': module } });
    await expect(start('./nowhere.ts')).rejects.toThrow(/my\.Own cannot be loaded from file:.*nowhere\.ts/);
    await expect(start(moduleOf('no-default'))).rejects.toThrow(/my\.Own.*no default export/);
    await expect(start('data:text/javascript,export default 7')).rejects.toThrow(/exports number as default/);
  });
});
