import { createHash } from 'node:crypto';
import { mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { ExportedWeights, TrainRequest, Weights } from '../../../src/engines/engine.ts';
import { ScriptedEngine } from '../../support/scripted-engine.ts';

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

/** A job of this learning rate trains until it is cancelled. */
export const endlessRate = 0.5;

/**
 * Its weights are a hash of everything they were trained on, in order: they are right only if each job trained once,
 * from the checkpoint before it. A checkpoint is two files; one without both is refused.
 */
export class ChainEngine extends ScriptedEngine {
  override async train({ from, folder, batches, onStep, signal }: TrainRequest): Promise<void> {
    let chain = await readChain(from);
    let steps = 0;
    for await (const batch of batches) {
      signal?.throwIfAborted();
      chain = sha256(`${chain}\n${JSON.stringify(batch.datums)}\n${batch.learningRate}`);
      steps++;
      onStep({ loss: 1 / steps, grad_norm: 0.5 });
      if (batch.learningRate === endlessRate) await aborted(signal);
    }
    const unfinished = `${folder}.unfinished`;
    await rm(unfinished, { recursive: true, force: true });
    await mkdir(unfinished);
    await writeDurably(join(unfinished, 'model'), `${chain}\n`.repeat(50));
    await writeDurably(join(unfinished, 'optimizer'), chain);
    await synchronize(unfinished);
    await rename(unfinished, folder);
    await synchronize(dirname(folder));
    this.trainings++;
  }

  override async exportWeights(weights: Weights): Promise<ExportedWeights> {
    const bytes = Buffer.from(await readChain(weights));
    const chunks = (async function* () {
      yield bytes;
    })();
    return { extension: '.safetensors', bytes: bytes.byteLength, chunks };
  }
}

/** Rejects when the signal does. */
function aborted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) =>
    signal?.addEventListener('abort', () => reject(signal.reason), { once: true }),
  );
}

async function readChain({ folder, baseModel }: Weights): Promise<string> {
  if (folder === null) return baseModel;
  const chain = await readFile(join(folder, 'optimizer'), 'utf8');
  const model = await readFile(join(folder, 'model'), 'utf8');
  if (chain.length !== 64 || model !== `${chain}\n`.repeat(50))
    throw new Error(`The checkpoint in ${folder} is not whole: ${model.length} and ${chain.length} bytes.`);
  return chain;
}

async function writeDurably(path: string, text: string): Promise<void> {
  const file = await open(path, 'w');
  await file.writeFile(text);
  await file.sync();
  await file.close();
}

async function synchronize(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  await handle.sync();
  await handle.close();
}
