import { readdir } from 'node:fs/promises';
import { folderFiles } from '../../../language/index.ts';
import { openRegularFile } from '../../../util/regular-file.ts';
import { openGguf } from './gguf-source.ts';
import { type CheckpointSource, TensorFiles } from './tensor-files.ts';

const isShared = (name: string) => /\.(json|jinja|txt|model)$|^(LICENSE|NOTICE)/.test(name);

/** @throws EngineError (`checkpoint_unsupported`, `bad_checkpoint`) for a GGUF file that cannot be read */
export async function openSource(from: string | CheckpointSource): Promise<CheckpointSource> {
  if (typeof from !== 'string') return from;
  if (from.toLowerCase().endsWith('.gguf') || (await beginsAsGguf(from))) return await openGguf(from);
  return {
    ...folderFiles(from),
    sharedFiles: async () => (await readdir(from)).filter(isShared),
    openTensors: () => TensorFiles.open(from),
  };
}

/** Ollama's files have no ending. */
async function beginsAsGguf(path: string): Promise<boolean> {
  try {
    await using file = await openRegularFile(path);
    const { buffer } = await file.read(Buffer.alloc(4), 0, 4, 0);
    return buffer.toString('latin1') === 'GGUF';
  } catch {
    // A folder, or nothing: what reads it says so.
    return false;
  }
}
