import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  type Adapter,
  adapterConfigFile,
  adapterTensors,
  adapterWeightsFile,
  encodeAdapterConfig,
  encodeAdapterHeader,
} from '../../../../src/engines/embedded/checkpoint/adapter.ts';
import { adapterVector } from '../../../../src/engines/embedded/runner/adapter-vector.ts';
import type { Architecture } from '../../../../src/engines/embedded/weights/architecture.ts';

/** Writes an adapter as the folder that PEFT loads, of the parts of which an export is made. */
export async function writeAdapter(
  folder: string,
  { adapter, architecture, baseModel }: { adapter: Adapter; architecture: Architecture; baseModel: string },
): Promise<void> {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, adapterConfigFile), encodeAdapterConfig(adapter, { architecture, baseModel }));
  const header = encodeAdapterHeader(adapterTensors(architecture, adapter));
  const data = new Uint8Array(adapterVector(architecture, adapter).buffer);
  await writeFile(join(folder, adapterWeightsFile), Buffer.concat([header, data]));
}
