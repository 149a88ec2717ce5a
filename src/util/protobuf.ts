import { joined } from './joined.ts';

const encoder = new TextEncoder();

/** Writes protocol-buffer messages (protobuf.dev/programming-guides/encoding). */
export class ProtobufWriter {
  #parts: Uint8Array[] = [];
  #length = 0;

  get length(): number {
    return this.#length;
  }

  integer(field: number, value: number | bigint): this {
    this.#varint((field << 3) | 0);
    this.#varint(value);
    return this;
  }

  float(field: number, value: number): this {
    this.#varint((field << 3) | 5);
    this.#push(new Uint8Array(new Float32Array([value]).buffer));
    return this;
  }

  double(field: number, value: number): this {
    this.#varint((field << 3) | 1);
    this.#push(new Uint8Array(new Float64Array([value]).buffer));
    return this;
  }

  text(field: number, value: string): this {
    return this.bytes(field, encoder.encode(value));
  }

  bytes(field: number, value: Uint8Array): this {
    this.#varint((field << 3) | 2);
    this.#varint(value.length);
    this.#push(value);
    return this;
  }

  message(field: number, value: ProtobufWriter): this {
    this.#varint((field << 3) | 2);
    this.#varint(value.length);
    for (const part of value.#parts) this.#push(part);
    return this;
  }

  finish(): Uint8Array {
    return joined(this.#parts);
  }

  #push(part: Uint8Array): void {
    this.#parts.push(part);
    this.#length += part.length;
  }

  #varint(value: number | bigint): void {
    let rest = BigInt.asUintN(64, BigInt(value));
    const bytes: number[] = [];
    while (rest > 127n) {
      bytes.push(Number(rest & 127n) | 128);
      rest >>= 7n;
    }
    bytes.push(Number(rest));
    this.#push(Uint8Array.from(bytes));
  }
}

/** A field of a message: `integer` of a varint, else `bytes`, which share the memory of the message. */
export interface ProtobufField {
  field: number;
  integer: bigint;
  bytes: Uint8Array;
}

/**
 * Reads the fields of a protocol-buffer message in their order, without their meaning.
 *
 * @throws RangeError when the message ends within a field, or has a wire type that no longer exists.
 */
export function* protobufFields(message: Uint8Array): Generator<ProtobufField> {
  let offset = 0;
  const take = (length: number): Uint8Array => {
    if (length > message.length - offset) throw new RangeError('the message ends within a field');
    offset += length;
    return message.subarray(offset - length, offset);
  };
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const [byte = 0] = take(1);
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return BigInt.asUintN(64, value);
    }
    throw new RangeError('an integer has more than ten bytes');
  };
  const none = new Uint8Array();
  while (offset < message.length) {
    const key = Number(varint());
    const field = Math.floor(key / 8);
    const wireType = key % 8;
    if (wireType === 0) yield { field, integer: varint(), bytes: none };
    else if (wireType === 1) yield { field, integer: 0n, bytes: take(8) };
    else if (wireType === 2) yield { field, integer: 0n, bytes: take(Number(varint())) };
    else if (wireType === 5) yield { field, integer: 0n, bytes: take(4) };
    else throw new RangeError(`field ${field} has the unknown wire type ${wireType}`);
  }
}
