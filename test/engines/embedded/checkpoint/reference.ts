import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

/** The checkpoints in `fixtures`, each of another family and number format. */
export const fixtureNames = [
  ...(['llama', 'qwen2', 'qwen3', 'gemma3', 'lfm2'] as const),
  ...(['mistral', 'granite', 'granite4', 'smollm3'] as const),
];

export type FixtureName = (typeof fixtureNames)[number];

const fixtures = new URL('./fixtures/', import.meta.url);

/** The folder of a checkpoint. Its LoRA adapter is in `adapter`. */
export const fixtureFolder = (name: FixtureName): string => fileURLToPath(new URL(name, fixtures));

export interface ReferenceTensor {
  shape: number[];
  data: Float32Array | BigInt64Array;
}

/** The settings of a reference: see `fixtures/make.py`. */
export interface ReferenceSettings {
  temperature: number;
  rank: number;
  alpha: number;
  loss: number;
  adam: { learningRate: number; betas: [number, number]; epsilon: number };
}

export async function readReference(
  name: FixtureName,
): Promise<{ settings: ReferenceSettings; tensors: Map<string, ReferenceTensor> }> {
  const settings: ReferenceSettings = await readFixtureJson(`${name}.reference.json`);
  return { settings, tensors: await readFixtureTensors(`${name}.reference.safetensors`) };
}

export async function readFixtureJson<Value>(file: string): Promise<Value> {
  return JSON.parse(await readFile(new URL(file, fixtures), 'utf8'));
}

/** Reads a safetensors file of float32 and int64 tensors, without the code under test. */
export async function readFixtureTensors(file: string): Promise<Map<string, ReferenceTensor>> {
  const bytes = await readFile(new URL(file, fixtures));
  const start = 8 + Number(bytes.readBigUInt64LE(0));
  const header: Record<string, { dtype: string; shape: number[]; data_offsets: [number, number] }> =
    JSON.parse(bytes.toString('utf8', 8, start));
  const entries = Object.entries(header).filter(([name]) => name !== '__metadata__');
  return new Map(
    entries.map(([name, { dtype, shape, data_offsets: offsets }]) => {
      const [from, to] = offsets;
      const { buffer } = Uint8Array.from(bytes.subarray(start + from, start + to));
      const data = dtype === 'I64' ? new BigInt64Array(buffer) : new Float32Array(buffer);
      return [name, { shape, data }];
    }),
  );
}
