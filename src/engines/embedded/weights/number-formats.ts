/** The number formats that weights may have, with the bytes of a number. */
export const formatBytes = { F32: 4, BF16: 2, F16: 2 } as const;

export type NumberFormat = keyof typeof formatBytes;

export const isFormat = (format: string): format is NumberFormat => Object.hasOwn(formatBytes, format);

/** The float32 of each float16, and its bits: 256 KB, made when first needed. */
let halfTable: { numbers: Float32Array; bits: Uint32Array } | undefined;

/** The number of a float16's bits. */
export function halfToFloat(half: number): number {
  halfTable ??= makeHalfTable();
  return halfTable.numbers[half] as number;
}

function makeHalfTable(): { numbers: Float32Array; bits: Uint32Array } {
  const numbers = new Float32Array(65_536);
  for (let half = 0; half < numbers.length; half++) {
    const exponent = (half >> 10) & 31;
    const fraction = half & 1023;
    const size =
      exponent === 0
        ? fraction * 2 ** -24
        : exponent === 31
          ? fraction === 0
            ? Number.POSITIVE_INFINITY
            : Number.NaN
          : (1 + fraction / 1024) * 2 ** (exponent - 15);
    numbers[half] = half & 0x8000 ? -size : size;
  }
  return { numbers, bits: new Uint32Array(numbers.buffer) };
}

/** Converts numbers of a format to float32, exactly. `source` holds as many as `target`. */
export function toFloat32(format: NumberFormat, source: Uint8Array<ArrayBuffer>, target: Float32Array): void {
  const bits = new Uint32Array(target.buffer, target.byteOffset, target.length);
  const { buffer, byteOffset } = source;
  if (format === 'F32') bits.set(new Uint32Array(buffer, byteOffset, bits.length));
  else {
    const halves = new Uint16Array(buffer, byteOffset, bits.length);
    if (format === 'BF16')
      for (let index = 0; index < bits.length; index++) bits[index] = (halves[index] as number) << 16;
    else {
      halfTable ??= makeHalfTable();
      for (let index = 0; index < bits.length; index++)
        bits[index] = halfTable.bits[halves[index] as number] as number;
    }
  }
}

/** Converts float32 numbers to a format, rounded to the nearest, ties to even, as PyTorch does. */
export function fromFloat32(format: NumberFormat, source: Float32Array): Uint8Array<ArrayBuffer> {
  const bits = new Uint32Array(source.buffer, source.byteOffset, source.length);
  const bytes = new Uint8Array(source.length * formatBytes[format]);
  if (format === 'F32') new Uint32Array(bytes.buffer).set(bits);
  else {
    const halves = new Uint16Array(bytes.buffer);
    const round = format === 'BF16' ? toBfloat16 : toFloat16;
    for (let index = 0; index < bits.length; index++) halves[index] = round(bits[index] as number);
  }
  return bytes;
}

function toBfloat16(bits: number): number {
  if ((bits & 0x7fffffff) > 0x7f800000) return ((bits >>> 16) | 0x40) & 0xffff;
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}

function toFloat16(bits: number): number {
  const sign = (bits >>> 16) & 0x8000;
  const size = bits & 0x7fffffff;
  if (size > 0x7f800000) return sign | 0x7e00;
  // 65520 and above round to infinity.
  if (size >= 0x477ff000) return sign | 0x7c00;
  // Below the smallest normal number, 2^-14: multiples of 2^-24.
  if (size < 0x38800000) return sign | roundEven(floatOf(size) * 2 ** 24);
  const rebased = size - 0x38000000;
  return sign | ((rebased + 0xfff + ((rebased >>> 13) & 1)) >>> 13);
}

const scratch = new Float32Array(1);
const scratchBits = new Uint32Array(scratch.buffer);

function floatOf(bits: number): number {
  scratchBits[0] = bits;
  return scratch[0] as number;
}

function roundEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}
