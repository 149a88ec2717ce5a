import { z } from 'zod';
import { EngineError } from '../../engine-error.ts';
import type { TensorShape } from './architecture.ts';

/**
 * Writes a flat float32 vector as a safetensors file: eight bytes of header length, a JSON header that says where
 * each tensor lies, the data (https://huggingface.co/docs/safetensors). `metadata` holds text by name.
 */
export function encodeSafetensors(
  shapes: readonly TensorShape[],
  data: Float32Array,
  metadata: Record<string, string> = {},
): Uint8Array {
  const header: Record<string, unknown> = { __metadata__: metadata };
  for (const { name, dimensions, offset, size } of shapes)
    header[name] = { dtype: 'F32', shape: dimensions, data_offsets: [offset * 4, (offset + size) * 4] };
  const text = JSON.stringify(header);
  const bytes = new TextEncoder().encode(text.padEnd(Math.ceil(text.length / 8) * 8));
  const file = new Uint8Array(8 + bytes.length + data.byteLength);
  new DataView(file.buffer).setBigUint64(0, BigInt(bytes.length), true);
  file.set(bytes, 8);
  file.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), 8 + bytes.length);
  return file;
}

/** Reads such a file back; throws an `EngineError` where a tensor is missing or has another shape. */
export function decodeSafetensors(
  file: Uint8Array,
  shapes: readonly TensorShape[],
  path: string,
): { data: Float32Array; metadata: Record<string, string> } {
  const refuse = (problem: string) => new EngineError('bad_checkpoint', `${path} ${problem}`);
  if (file.length < 8) throw refuse('is too short for a safetensors file');
  const length = Number(new DataView(file.buffer, file.byteOffset).getBigUint64(0, true));
  if (8 + length > file.length) throw refuse('is cut off in its header');
  const header = headerSchema.safeParse(readJson(file.subarray(8, 8 + length)));
  if (!header.success) throw refuse('has no safetensors header');
  const { __metadata__: metadata = {}, ...tensors } = header.data;
  const start = 8 + length;
  const total = shapes.reduce((sum, { size }) => sum + size, 0);
  const data = new Float32Array(total);
  const target = new Uint8Array(data.buffer);
  for (const { name, dimensions, offset, size } of shapes) {
    const entry = tensors[name];
    if (entry?.dtype !== 'F32' || entry.shape.join() !== dimensions.join())
      throw refuse(`has no float32 tensor ${name} of shape [${dimensions}]`);
    const [from, to] = entry.data_offsets;
    if (to - from !== size * 4 || start + to > file.length) throw refuse(`is cut off in tensor ${name}`);
    target.set(file.subarray(start + from, start + to), offset * 4);
  }
  return { data, metadata };
}

const headerSchema = z.object({ __metadata__: z.record(z.string(), z.string()).optional() }).catchall(
  z.object({
    dtype: z.string(),
    shape: z.array(z.number()),
    data_offsets: z.tuple([z.number(), z.number()]),
  }),
);

function readJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return undefined;
  }
}
