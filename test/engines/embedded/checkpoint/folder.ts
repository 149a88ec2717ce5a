import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

export interface Tensor {
  shape: readonly number[];
  bytes: Uint8Array;
}

export type Format = 'F32' | 'BF16' | 'F16';

/** A safetensors file, written by the format's description and not by the code under test. */
export function safetensors(format: string, tensors: ReadonlyMap<string, Tensor>): Buffer {
  let end = 0;
  const entries = Array.from(tensors, ([name, { shape, bytes }]) => {
    const start = end;
    end += bytes.length;
    return [name, { dtype: format, shape, data_offsets: [start, end] }];
  });
  const header = Buffer.from(
    JSON.stringify({ __metadata__: { format: 'pt' }, ...Object.fromEntries(entries) }),
  );
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([length, header, ...Array.from(tensors.values(), ({ bytes }) => bytes)]);
}

export const shardName = (shard: number, shards: number) =>
  `model-${String(shard + 1).padStart(5, '0')}-of-${String(shards).padStart(5, '0')}.safetensors`;

/** Writes a checkpoint as transformers does: one file, or several with an index. */
export async function writeFolder(
  folder: string,
  { config, format, tensors, shards = 1 }: FolderContents,
): Promise<void> {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'config.json'), JSON.stringify(config));
  if (shards === 1) return await writeFile(join(folder, 'model.safetensors'), safetensors(format, tensors));
  const groups = Array.from({ length: shards }, () => new Map<string, Tensor>());
  const places: Record<string, string> = {};
  for (const [index, [name, tensor]] of [...tensors].entries()) {
    const shard = Math.floor((index * shards) / tensors.size);
    groups[shard]?.set(name, tensor);
    places[name] = shardName(shard, shards);
  }
  for (const [shard, group] of groups.entries())
    await writeFile(join(folder, shardName(shard, shards)), safetensors(format, group));
  const index = JSON.stringify({ metadata: {}, weight_map: places });
  await writeFile(join(folder, 'model.safetensors.index.json'), index);
}

export interface FolderContents {
  config: Record<string, unknown>;
  format: Format;
  tensors: ReadonlyMap<string, Tensor>;
  /** Number of files. Default 1. */
  shards?: number;
}

/** The float32 numbers in a tensor of a format, by the definition of the format. */
export function numbersOf(format: Format, bytes: Uint8Array): number[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (format === 'F32')
    return Array.from({ length: bytes.length / 4 }, (_, index) => view.getFloat32(index * 4, true));
  return Array.from({ length: bytes.length / 2 }, (_, index) => {
    const bits = view.getUint16(index * 2, true);
    const sign = bits & 0x8000 ? -1 : 1;
    const [exponentBits, fractionBits, bias] = format === 'F16' ? [5, 10, 15] : [8, 7, 127];
    const exponent = (bits >> fractionBits) & (2 ** exponentBits - 1);
    const fraction = (bits & (2 ** fractionBits - 1)) / 2 ** fractionBits;
    if (exponent === 2 ** exponentBits - 1)
      return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
    return sign * (exponent === 0 ? fraction * 2 ** (1 - bias) : (1 + fraction) * 2 ** (exponent - bias));
  });
}
