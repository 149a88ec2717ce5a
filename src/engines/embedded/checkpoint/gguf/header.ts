import type { FileHandle } from 'node:fs/promises';
import { elementsOf } from '../../weights/architecture.ts';
import type { StoredTensor } from '../../weights/safetensors.ts';
import { badCheckpoint } from '../bad-checkpoint.ts';
import { blockOf, formatName } from './formats.ts';

/** The tensor with the factors of rotary frequencies, which a file has instead of the numbers that they come from. */
export const ropeFactors = 'rope_freqs.weight';

/** A value of the metadata. Whole numbers beyond 2^53 are refused. */
export type GgufValue = number | boolean | string | readonly GgufValue[];

/** What a GGUF file says before its numbers (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). */
export interface GgufHeader {
  metadata: ReadonlyMap<string, GgufValue>;
  /** Their dimensions are outermost first, the other way round than in the file. */
  tensors: ReadonlyMap<string, StoredTensor>;
}

/**
 * Many times what published files have: 150,000 tokens with their merges take 6 MB. So a wrong number is told before it
 * takes memory.
 */
const most = {
  headerBytes: 256 * 1024 * 1024,
  fields: 65_536,
  entries: 1 << 22,
  tensors: 262_144,
  name: 65_535,
  nested: 4,
} as const;

/** Bytes of the header that are read at first. Only few headers are longer. */
const firstBytes = 16 * 1024 * 1024;

/**
 * Reads the header. Nothing of the numbers is read, but each tensor's place is checked against the length of the file.
 * @throws EngineError (`bad_checkpoint`) that names the file, the field or the tensor, and the value.
 */
export async function readHeader(path: string, handle: FileHandle): Promise<GgufHeader> {
  const { size } = await handle.stat();
  for (let length = Math.min(size, firstBytes); ; length = Math.min(size, 4 * length)) {
    const bytes = Buffer.alloc(length);
    const { bytesRead } = await handle.read(bytes, 0, length, 0);
    try {
      return new HeaderReader(path, bytes.subarray(0, bytesRead), size).read();
    } catch (error) {
      if (!(error instanceof NotYetRead)) throw error;
      if (length >= Math.min(size, most.headerBytes))
        throw badCheckpoint(
          length < size
            ? `${path} has a header of more than ${most.headerBytes} bytes.`
            : `${path} is cut off in its header, ${error.message}. Fetch it again.`,
        );
    }
  }
}

/** The header continues after the bytes that have been read. */
class NotYetRead extends Error {}

const bytesOfType = [1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8] as const;
const [stringType, arrayType] = [8, 9];

class HeaderReader {
  readonly #path: string;
  readonly #bytes: Buffer;
  readonly #size: number;
  #at = 0;
  /** What is being read, for messages. */
  #what = 'at its beginning';

  constructor(path: string, bytes: Buffer, size: number) {
    this.#path = path;
    this.#bytes = bytes;
    this.#size = size;
  }

  read(): GgufHeader {
    if (this.#take(4).toString('latin1') !== 'GGUF')
      throw this.#bad('is not a GGUF file, which begins with GGUF');
    const version = this.#unsigned();
    if (version !== 2 && version !== 3)
      throw this.#bad(
        `has version ${version} of the format. martingale reads 2 and 3, in little-endian order`,
      );
    const tensorCount = this.#count('number of tensors', most.tensors, 24);
    const fieldCount = this.#count('number of fields', most.fields, 13);
    const metadata = new Map<string, GgufValue>();
    for (let index = 0; index < fieldCount; index++) {
      this.#what = `in field ${index} of ${fieldCount}`;
      const name = this.#name();
      this.#what = `in field ${name}`;
      if (metadata.has(name)) throw this.#bad(`has field ${name} twice`);
      metadata.set(name, this.#value(this.#unsigned(), 0));
    }
    return { metadata, tensors: this.#tensors(tensorCount, metadata.get('general.alignment') ?? 32) };
  }

  #tensors(count: number, alignment: GgufValue): Map<string, StoredTensor> {
    if (typeof alignment !== 'number' || !Number.isInteger(alignment) || alignment < 1 || alignment > 1 << 20)
      throw this.#bad(`has general.alignment ${alignment}. It must be a whole number of 1 to ${1 << 20}`);
    const names = new Set<string>();
    const places: { name: string; format: string; dimensions: number[]; offset: number }[] = [];
    for (let index = 0; index < count; index++) {
      this.#what = `in tensor ${index} of ${count}`;
      const name = this.#name();
      this.#what = `in tensor ${name}`;
      if (names.has(name)) throw this.#bad(`has tensor ${name} twice`);
      names.add(name);
      const depth = this.#unsigned();
      if (depth > 4) throw this.#bad(`gives tensor ${name} ${depth} dimensions. The maximum is 4`);
      const dimensions = Array.from({ length: depth }, () => this.#long('a dimension')).reverse();
      if (!Number.isSafeInteger(elementsOf(dimensions)))
        throw this.#bad(`has tensor ${name} of [${dimensions}], more numbers than any file`);
      const type = this.#unsigned();
      const format = formatName(type);
      if (format === undefined) throw this.#bad(`has tensor ${name} of the unknown type ${type}`);
      places.push({ name, format, dimensions, offset: this.#long('its offset') });
    }
    const data = Math.ceil(this.#at / alignment) * alignment;
    const tensors = new Map<string, StoredTensor>();
    for (const { name, format, dimensions, offset } of places) {
      const block = blockOf(format);
      const row = dimensions.at(-1) ?? 1;
      if (row % block.numbers !== 0)
        throw this.#bad(
          `has tensor ${name} with rows of ${row}, but ${format} has blocks of ${block.numbers}`,
        );
      if (offset % alignment !== 0)
        throw this.#bad(
          `has offset ${offset} of tensor ${name}, which is no multiple of general.alignment, ${alignment}`,
        );
      const bytes = (elementsOf(dimensions) / block.numbers) * block.bytes;
      const start = data + offset;
      if (start + bytes > this.#size)
        throw this.#bad(
          `is cut off in tensor ${name}, which ends at byte ${start + bytes}: the file has ${this.#size}. Fetch it again`,
        );
      tensors.set(name, { format, dimensions, start, bytes });
    }
    return tensors;
  }

  #value(type: number, depth: number): GgufValue {
    const at = this.#at;
    if (type === stringType) return this.#text(most.headerBytes);
    if (type === arrayType) return this.#list(depth);
    const size = bytesOfType[type];
    if (size === undefined)
      throw this.#bad(`has ${this.#what.replace('in ', '')} of the unknown type ${type}`);
    this.#take(size);
    switch (type) {
      case 0:
        return this.#bytes.readUInt8(at);
      case 1:
        return this.#bytes.readInt8(at);
      case 2:
        return this.#bytes.readUInt16LE(at);
      case 3:
        return this.#bytes.readInt16LE(at);
      case 4:
        return this.#bytes.readUInt32LE(at);
      case 5:
        return this.#bytes.readInt32LE(at);
      case 6:
        return this.#bytes.readFloatLE(at);
      case 7:
        return this.#bytes.readUInt8(at) !== 0;
      case 10:
        return this.#safe(this.#bytes.readBigUInt64LE(at), 'a number');
      case 11:
        return this.#safe(this.#bytes.readBigInt64LE(at), 'a number');
      default:
        return this.#bytes.readDoubleLE(at);
    }
  }

  #list(depth: number): GgufValue[] {
    if (depth >= most.nested)
      throw this.#bad(`has lists in lists, deeper than ${most.nested}, ${this.#what}`);
    const type = this.#unsigned();
    const size = bytesOfType[type];
    if (size === undefined) throw this.#bad(`has a list of the unknown type ${type} ${this.#what}`);
    const count = this.#count(`length of a list ${this.#what}`, most.entries, size);
    const list: GgufValue[] = [];
    for (let index = 0; index < count; index++) list.push(this.#value(type, depth + 1));
    return list;
  }

  /** A count of items that take at least `least` bytes each, so the file limits it. */
  #count(what: string, largest: number, least: number): number {
    const count = this.#long(`the ${what}`);
    if (count > largest || count * least > this.#size - this.#at)
      throw this.#bad(
        `has ${count} as ${what}, more than ${count > largest ? largest : 'the file has room for'}`,
      );
    return count;
  }

  #name(): string {
    return this.#text(most.name);
  }

  #text(longest: number): string {
    const length = this.#long('the length of a text');
    if (length > longest || length > this.#size - this.#at)
      throw this.#bad(
        `has a text of ${length} bytes ${this.#what}, longer than ${length > longest ? longest : 'the file'}`,
      );
    return this.#take(length).toString();
  }

  #unsigned(): number {
    return this.#take(4).readUInt32LE();
  }

  #long(what: string): number {
    return this.#safe(this.#take(8).readBigUInt64LE(), what);
  }

  #safe(value: bigint, what: string): number {
    const number = Number(value);
    if (Number.isSafeInteger(number)) return number;
    throw this.#bad(`has ${value} as ${what} ${this.#what}, which is too large`);
  }

  #take(length: number): Buffer {
    const end = this.#at + length;
    if (end > this.#bytes.length) throw new NotYetRead(this.#what);
    const taken = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return taken;
  }

  #bad(problem: string) {
    return badCheckpoint(`${this.#path} ${problem}.`);
  }
}
