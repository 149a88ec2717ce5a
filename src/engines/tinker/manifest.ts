import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { privateFile, writeFolderAtomically } from '../../util/durable-files.ts';
import { messageOf } from '../../util/error.ts';
import { EngineError, type Weights } from '../engine.ts';

const fileName = 'tinker.json';

/** What a checkpoint's folder holds: where its weights are. */
const manifestSchema = z.object({
  /** Address of the server that has them. */
  server: z.string(),
  baseModel: z.string(),
  /** Such as `tinker://model_1/weights/name`. */
  path: z.string().startsWith('tinker://'),
});

type Manifest = z.infer<typeof manifestSchema>;

/** Writes a checkpoint's folder, durably and by one rename. */
export async function writeManifest(folder: string, manifest: Manifest): Promise<void> {
  await writeFolderAtomically(folder, async (unfinished) => {
    const options = { mode: privateFile, flush: true };
    await writeFile(join(unfinished, fileName), `${JSON.stringify(manifest, null, 2)}\n`, options);
  });
}

/** Path on the server of a checkpoint's weights; null for the base model. @throws EngineError (`checkpoint_missing`) */
export async function pathOf({ folder }: Weights): Promise<string | null> {
  if (folder === null) return null;
  try {
    return manifestSchema.parse(JSON.parse(await readFile(join(folder, fileName), 'utf8'))).path;
  } catch (cause) {
    throw new EngineError(
      'checkpoint_missing',
      `${join(folder, fileName)} cannot be read: ${messageOf(cause)}`,
      { cause },
    );
  }
}
