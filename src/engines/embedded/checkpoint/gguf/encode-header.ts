import { append } from '../../../../util/extremes.ts';
import { elementsOf, type NamedShape } from '../../weights/architecture.ts';
import { blockOf, typeOf } from './formats.ts';

/** How the matrices of a file that is written may be stored. */
export type GgufType = 'f16' | 'q8_0';

/** A field of the metadata with the type that readers expect. */
export type GgufField =
  | { type: 'uint32' | 'float32'; value: number }
  | { type: 'bool'; value: boolean }
  | { type: 'string'; value: string }
  | { type: 'strings'; value: readonly string[] }
  | { type: 'int32s' | 'float32s'; value: readonly number[] };

export interface GgufTensorShape extends NamedShape {
  format: 'F32' | 'F16' | 'Q8_0';
}

/** Tensors begin at multiples of this. */
const alignment = 32;

export const bytesOf = ({ dimensions, format }: GgufTensorShape): number => {
  const { numbers, bytes } = blockOf(format);
  return (elementsOf(dimensions) / numbers) * bytes;
};

/** The zeros that follow this many bytes, up to the next aligned one. */
export const padding = (bytes: number): Uint8Array<ArrayBuffer> =>
  new Uint8Array((alignment - (bytes % alignment)) % alignment);

/**
 * Encodes the header of a GGUF file of version 3, with the zeros up to the first tensor. The data of the tensors must
 * follow in the same order, each with its `padding`.
 */
export function encodeGgufHeader(
  fields: Readonly<Record<string, GgufField>>,
  tensors: readonly GgufTensorShape[],
): Uint8Array {
  const all = Object.entries(fields);
  const pieces = [Buffer.from('GGUF'), u32(3), u64(tensors.length), u64(all.length)];
  for (const [name, field] of all) {
    pieces.push(text(name));
    // Gemma's tokenizer has 262,144 tokens, more than a call takes.
    append(pieces, encodeField(field));
  }
  let offset = 0;
  for (const tensor of tensors) {
    const { name, dimensions, format } = tensor;
    pieces.push(
      text(name),
      u32(dimensions.length),
      ...dimensions.toReversed().map(u64),
      u32(typeOf(format)),
      u64(offset),
    );
    const bytes = bytesOf(tensor);
    offset += bytes + padding(bytes).length;
  }
  const header = Buffer.concat(pieces);
  return Buffer.concat([header, padding(header.length)]);
}

function encodeField(field: GgufField): Buffer[] {
  switch (field.type) {
    case 'uint32':
      return [u32(4), u32(field.value)];
    case 'float32':
      return [u32(6), f32(field.value)];
    case 'bool':
      return [u32(7), Buffer.from([field.value ? 1 : 0])];
    case 'string':
      return [u32(8), text(field.value)];
    case 'strings':
      return [u32(9), u32(8), u64(field.value.length), ...field.value.map(text)];
    case 'int32s':
      return [u32(9), u32(5), u64(field.value.length), Buffer.from(Int32Array.from(field.value).buffer)];
    case 'float32s':
      return [u32(9), u32(6), u64(field.value.length), Buffer.from(Float32Array.from(field.value).buffer)];
  }
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function u64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function f32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
}

const text = (value: string): Buffer => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);
