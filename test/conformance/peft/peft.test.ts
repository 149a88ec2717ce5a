import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { encodeAdapter, readAdapter } from '../../../src/engines/embedded/checkpoint/adapter.ts';
import { readConfig } from '../../../src/engines/embedded/checkpoint/config.ts';
import { writeMerged } from '../../../src/engines/embedded/checkpoint/merge.ts';
import { fixtureFolder, fixtureNames } from '../../engines/embedded/checkpoint/reference.ts';
import { temporaryFolder } from '../../support/files.ts';

const run = promisify(execFile);

/** PyTorch, transformers and PEFT are 2 GB, so they are not installed for this test. */
const python = process.env.MARTINGALE_PEFT_PYTHON;
if (!python)
  process.stderr.write(
    '\nNOT RUN: adapters in PEFT. MARTINGALE_PEFT_PYTHON must name a Python with the packages of ' +
      'test/engines/embedded/checkpoint/fixtures/requirements.txt.\n\n',
  );

describe.skipIf(!python)('PEFT and transformers', { tags: ['long'] }, () => {
  it.each(fixtureNames)(
    'load our adapter and our merged checkpoint with the same logits: %s',
    async (name) => {
      const base = fixtureFolder(name);
      const { architecture } = await readConfig(base);
      const adapter = await readAdapter(join(base, 'adapter'), architecture);
      const folder = await temporaryFolder();
      await mkdir(join(folder, 'adapter'));
      for (const [file, bytes] of Object.entries(encodeAdapter(adapter, architecture, { baseModel: base })))
        await writeFile(join(folder, 'adapter', file), bytes);
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
      expect(merged).toBeLessThan({ llama: 3e-5, qwen2: 0.2, qwen3: 0.02 }[name]);
      expect(format).toBe({ llama: 'torch.float32', qwen2: 'torch.bfloat16', qwen3: 'torch.float16' }[name]);
    },
  );
});
