import { createReadStream, existsSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { createTrainingJobRequestSchema } from '../../contract/index.ts';
import { readGroupedBody } from '../bodies/grouped-body.ts';
import { machineFaultOf } from '../faults.ts';
import type { DataFiles } from '../store/files.ts';
import type { IncomingFile } from '../store/incoming-file.ts';
import type { Store } from '../store/store.ts';
import { packGroups } from './pack-groups.ts';

const fields = new Set(Object.keys(createTrainingJobRequestSchema.shape));

/**
 * Packs the payloads that earlier data folders have: `jobs/<id>.json.gz`, the body of the request as it came. One that
 * cannot be read is left out, and its job fails when it is run.
 */
export async function packOlderPayloads({ store, files }: { store: Store; files: DataFiles }): Promise<void> {
  for (const jobId of await store.unfinishedJobIds()) {
    const path = files.absolute(join('jobs', `${jobId}.json.gz`));
    if (!existsSync(path)) continue;
    const body = await files.createIncoming();
    try {
      await unpack(path, body);
      const packed = await packGroups(await readGroupedBody({ bytes: body.bytes, source: body }, fields), {
        files,
        surroundings: null,
      });
      await files.keepPayload(jobId, packed.file);
    } catch (error) {
      if (machineFaultOf(error)) throw error;
    } finally {
      await body.discard();
    }
  }
}

async function unpack(path: string, body: IncomingFile): Promise<void> {
  await pipeline(createReadStream(path), createGunzip(), async (pieces: AsyncIterable<Buffer>) => {
    for await (const piece of pieces) await body.append(piece);
  });
}
