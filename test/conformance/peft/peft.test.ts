import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createClient } from '../../../src/client/index.ts';
import { readAdapter } from '../../../src/engines/embedded/checkpoint/adapter.ts';
import { readConfig } from '../../../src/engines/embedded/checkpoint/config.ts';
import { writeMerged } from '../../../src/engines/embedded/checkpoint/merge.ts';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import { startService } from '../../../src/service/index.ts';
import { writeAdapter } from '../../engines/embedded/checkpoint/adapter-folder.ts';
import { generateCheckpoint } from '../../engines/embedded/checkpoint/generated.ts';
import { fixtureFolder, fixtureNames } from '../../engines/embedded/checkpoint/reference.ts';
import { temporaryFolder } from '../../support/files.ts';
import { runProgram } from '../../support/programs.ts';

const run = promisify(execFile);

/** PyTorch, transformers and PEFT are 2 GB, so they are not installed for this test. */
const python = process.env.MARTINGALE_PEFT_PYTHON;
if (!python)
  console.warn(
    'NOT RUN: adapters in PEFT. MARTINGALE_PEFT_PYTHON must name a Python with the packages of ' +
      'test/engines/embedded/checkpoint/fixtures/requirements.txt.',
  );

describe.skipIf(!python)('PEFT and transformers', { tags: ['long'] }, () => {
  it.each(fixtureNames)(
    'load our adapter and our merged checkpoint with the same logits: %s',
    async (name) => {
      const base = fixtureFolder(name);
      const { architecture } = readConfig(base);
      const adapter = await readAdapter(join(base, 'adapter'), architecture);
      const folder = await temporaryFolder();
      await writeAdapter(join(folder, 'adapter'), { adapter, architecture, baseModel: base });
      await writeMerged(base, adapter, join(folder, 'merged'));
      const program = join(import.meta.dirname, 'compare.py');
      const folders = [
        base,
        join(folder, 'adapter'),
        join(folder, 'merged'),
        `${base}.reference.safetensors`,
      ];
      const { stdout } = await run(python ?? '', [program, ...folders], { timeout: 300_000 });
      const { adapter: withAdapter, merged, format } = JSON.parse(stdout);
      // The reference was computed with another implementation of attention.
      expect(withAdapter).toBeLessThan(3e-5);
      // Merged weights are rounded to the number format of the base.
      const expected =
        name === 'llama' || name === 'granite4' ? 'float32' : name === 'qwen3' ? 'float16' : 'bfloat16';
      expect(merged).toBeLessThan({ float32: 3e-5, float16: 0.02, bfloat16: 0.2 }[expected]);
      expect(format).toBe(`torch.${expected}`);
    },
  );

  it('write an adapter with which a checkpoint begins, and load what `export --merged` wrote: same logits', async () => {
    const folder = await temporaryFolder();
    // As many rows as its tokenizer has ids: transformers counts further rows into the softmax, this engine does not.
    const base = await generateCheckpoint(folder, 'qwen3', { vocabularySize: 709 });
    const [adapter, merged] = [join(folder, 'adapter'), join(folder, 'merged')];
    const tokens = Array.from({ length: 40 }, (_, index) => (index * 37 + 11) % 700);
    const program = join(import.meta.dirname, 'start.py');
    const logprobsOf = async (...args: string[]): Promise<number[]> =>
      JSON.parse((await run(python ?? '', [program, ...args, JSON.stringify(tokens)])).stdout);
    const expected = await logprobsOf('make', base, adapter);
    const engine = await createEmbeddedEngine({
      threads: 1,
      checkpoints: [{ folder: base, id: 'begun', adapter }],
    });
    const service = await startService({ engine, dataFolder: join(folder, 'data') });
    onTestFinished(async () => {
      await service.close();
      await engine.close();
    });
    const scored = await engine.scorePrompt({
      weights: { baseModel: 'begun', folder: null },
      prompt: tokens,
      top: 0,
    });
    const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
    await client.models.create({ project: 'shop', name: 'agent', base_model: 'begun' });
    await client.close();
    await runProgram('src/cli/main.ts', {
      args: ['export', 'shop/agent', '--merged', '--checkpoint', base, '--out', merged],
      env: { MARTINGALE_BASE_URL: service.url, MARTINGALE_API_KEY: service.apiKey },
    });
    const loaded = await logprobsOf('load', merged);
    const plain = await logprobsOf('load', base);
    for (const [index, logprob] of expected.entries()) {
      expect(scored[index + 1]?.logprob).toBeCloseTo(logprob, 4);
      expect(loaded[index]).toBeCloseTo(logprob, 4);
    }
    const changes = expected.map((logprob, index) => Math.abs(logprob - (plain[index] as number)));
    expect(Math.max(...changes)).toBeGreaterThan(0.1);
  });
});
