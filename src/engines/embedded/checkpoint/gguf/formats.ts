import { formatBytes, fromFloat32, halfToFloat, isFormat, toFloat32 } from '../../weights/number-formats.ts';

/** Unpacks one block: its bytes from `at` on become numbers of the target from `to` on. */
type Unpack = (bytes: Uint8Array, at: number, target: Float32Array, to: number) => void;

interface Packing {
  /** Numbers of a block, and its bytes. */
  numbers: number;
  bytes: number;
  unpack: Unpack;
}

/** The names of all types of numbers that GGUF files may have, by their number in the format. */
const names: Readonly<Record<number, string>> = {
  0: 'F32',
  1: 'F16',
  2: 'Q4_0',
  3: 'Q4_1',
  6: 'Q5_0',
  7: 'Q5_1',
  8: 'Q8_0',
  9: 'Q8_1',
  10: 'Q2_K',
  11: 'Q3_K',
  12: 'Q4_K',
  13: 'Q5_K',
  14: 'Q6_K',
  15: 'Q8_K',
  16: 'IQ2_XXS',
  17: 'IQ2_XS',
  18: 'IQ3_XXS',
  19: 'IQ1_S',
  20: 'IQ4_NL',
  21: 'IQ3_S',
  22: 'IQ2_S',
  23: 'IQ4_XS',
  24: 'I8',
  25: 'I16',
  26: 'I32',
  27: 'I64',
  28: 'F64',
  29: 'IQ1_M',
  30: 'BF16',
  34: 'TQ1_0',
  35: 'TQ2_0',
  39: 'MXFP4',
  40: 'NVFP4',
  41: 'Q1_0',
};

export const formatName = (type: number): string | undefined => names[type];

export const typeOf = (format: string): number =>
  Number(Object.keys(names).find((type) => names[Number(type)] === format));

/** The numbers and bytes of a block of a format; of a format that is not read, of one byte. */
export function blockOf(format: string): { numbers: number; bytes: number } {
  if (isFormat(format)) return { numbers: 1, bytes: formatBytes[format] };
  return packings[format] ?? { numbers: 1, bytes: 0 };
}

/** Converts whole blocks of a format to float32: the values of the `gguf` package of Python, bit for bit. */
export function unpack(format: string, bytes: Uint8Array<ArrayBuffer>, target: Float32Array): void {
  if (isFormat(format)) {
    toFloat32(format, bytes, target);
    return;
  }
  const packing = packings[format];
  if (!packing) throw new Error(`no numbers of ${format} are read`);
  const { numbers, bytes: size, unpack: block } = packing;
  for (let index = 0; index * numbers < target.length; index++)
    block(bytes, index * size, target, index * numbers);
}

/** The numbers as a file has them. Rows of Q8_0 must be whole blocks. */
export function pack(format: 'F32' | 'F16' | 'Q8_0', numbers: Float32Array): Uint8Array<ArrayBuffer> {
  return format === 'Q8_0' ? packQ8(numbers) : fromFloat32(format, numbers);
}

const half = (bytes: Uint8Array, at: number): number =>
  halfToFloat((bytes[at] as number) | ((bytes[at + 1] as number) << 8));

const signed = (byte: number): number => (byte << 24) >> 24;

/** Blocks of 32 numbers, whose first half is in the low halves of the bytes. `quantum`: of the number at an index. */
const halves =
  (
    from: number,
    number: (bytes: Uint8Array, at: number) => (quantum: number, index: number) => number,
  ): Unpack =>
  (bytes, at, target, to) => {
    const value = number(bytes, at);
    for (let index = 0; index < 16; index++) {
      const both = bytes[at + from + index] as number;
      target[to + index] = value(both & 15, index);
      target[to + 16 + index] = value(both >> 4, 16 + index);
    }
  };

/** The fifth bit of the number at an index. */
const fifth = (bytes: Uint8Array, at: number, index: number): number =>
  (((bytes[at + (index >> 3)] as number) >> (index & 7)) & 1) << 4;

const nonLinear = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113] as const;

const packings: Readonly<Record<string, Packing>> = {
  Q4_0: {
    numbers: 32,
    bytes: 18,
    unpack: halves(2, (bytes, at) => {
      const scale = half(bytes, at);
      return (quantum) => scale * (quantum - 8);
    }),
  },
  Q4_1: {
    numbers: 32,
    bytes: 20,
    unpack: halves(4, (bytes, at) => {
      const [scale, least] = [half(bytes, at), half(bytes, at + 2)];
      return (quantum) => Math.fround(scale * quantum) + least;
    }),
  },
  Q5_0: {
    numbers: 32,
    bytes: 22,
    unpack: halves(6, (bytes, at) => {
      const scale = half(bytes, at);
      return (quantum, index) => scale * ((quantum | fifth(bytes, at + 2, index)) - 16);
    }),
  },
  Q5_1: {
    numbers: 32,
    bytes: 24,
    unpack: halves(8, (bytes, at) => {
      const [scale, least] = [half(bytes, at), half(bytes, at + 2)];
      return (quantum, index) => Math.fround(scale * (quantum | fifth(bytes, at + 4, index))) + least;
    }),
  },
  IQ4_NL: {
    numbers: 32,
    bytes: 18,
    unpack: halves(2, (bytes, at) => {
      const scale = half(bytes, at);
      return (quantum) => scale * (nonLinear[quantum] as number);
    }),
  },
  Q8_0: {
    numbers: 32,
    bytes: 34,
    unpack(bytes, at, target, to) {
      const scale = half(bytes, at);
      for (let index = 0; index < 32; index++)
        target[to + index] = scale * signed(bytes[at + 2 + index] as number);
    },
  },
  Q2_K: {
    numbers: 256,
    bytes: 84,
    unpack(bytes, at, target, to) {
      const [scale, least] = [half(bytes, at + 80), half(bytes, at + 82)];
      for (let group = 0; group < 16; group++) {
        const both = bytes[at + group] as number;
        const [own, lowest] = [Math.fround(scale * (both & 15)), Math.fround(least * (both >> 4))];
        for (let index = 16 * group; index < 16 * (group + 1); index++)
          target[to + index] = Math.fround(own * twoBits(bytes, at + 16, index)) - lowest;
      }
    },
  },
  Q3_K: {
    numbers: 256,
    bytes: 110,
    unpack(bytes, at, target, to) {
      const scale = half(bytes, at + 108);
      for (let group = 0; group < 16; group++) {
        const low = (bytes[at + 96 + (group & 7)] as number) >> (group < 8 ? 0 : 4);
        const high = (bytes[at + 104 + (group & 3)] as number) >> (2 * (group >> 2));
        const own = Math.fround(scale * (((low & 15) | ((high & 3) << 4)) - 32));
        for (let index = 16 * group; index < 16 * (group + 1); index++) {
          const isHigh = ((bytes[at + (index & 31)] as number) >> (index >> 5)) & 1;
          target[to + index] = own * (twoBits(bytes, at + 32, index) - (isHigh ? 0 : 4));
        }
      }
    },
  },
  Q4_K: {
    numbers: 256,
    bytes: 144,
    unpack: scaledAndShifted((bytes, at, index) => fourBits(bytes, at + 16, index)),
  },
  Q5_K: {
    numbers: 256,
    bytes: 176,
    unpack: scaledAndShifted(
      (bytes, at, index) =>
        fourBits(bytes, at + 48, index) |
        ((((bytes[at + 16 + (index & 31)] as number) >> (index >> 5)) & 1) << 4),
    ),
  },
  Q6_K: {
    numbers: 256,
    bytes: 210,
    unpack(bytes, at, target, to) {
      const scale = half(bytes, at + 208);
      for (let group = 0; group < 16; group++) {
        const own = Math.fround(scale * signed(bytes[at + 192 + group] as number));
        for (let index = 16 * group; index < 16 * (group + 1); index++) {
          const low =
            (bytes[at + ((index >> 7) << 6) + (index & 63)] as number) >> ((index >> 6) & 1 ? 4 : 0);
          target[to + index] = own * (((low & 15) | (twoBits(bytes, at + 128, index) << 4)) - 32);
        }
      }
    },
  },
};

/** Two bits of the number at an index: four rows of 32 numbers share 32 bytes. */
const twoBits = (bytes: Uint8Array, at: number, index: number): number =>
  ((bytes[at + ((index >> 7) << 5) + (index & 31)] as number) >> (2 * ((index >> 5) & 3))) & 3;

/** Four bits of the number at an index: two rows of 32 numbers share 32 bytes. */
const fourBits = (bytes: Uint8Array, at: number, index: number): number =>
  ((bytes[at + ((index >> 6) << 5) + (index & 31)] as number) >> ((index >> 5) & 1 ? 4 : 0)) & 15;

/** Blocks of 256 numbers with a scale and a least value for each 32, six bits each. */
function scaledAndShifted(quantum: (bytes: Uint8Array, at: number, index: number) => number): Unpack {
  return (bytes, at, target, to) => {
    const [scale, least] = [half(bytes, at), half(bytes, at + 2)];
    const packed = (index: number) => bytes[at + 4 + index] as number;
    for (let group = 0; group < 8; group++) {
      const [scales, leasts] =
        group < 4
          ? [packed(group) & 63, packed(group + 4) & 63]
          : [
              (packed(group + 4) & 15) | ((packed(group - 4) >> 2) & 48),
              (packed(group + 4) >> 4) | ((packed(group) >> 2) & 48),
            ];
      const [own, lowest] = [Math.fround(scale * scales), Math.fround(least * leasts)];
      for (let index = 32 * group; index < 32 * (group + 1); index++)
        target[to + index] = Math.fround(own * quantum(bytes, at, index)) - lowest;
    }
  };
}

export const readFormats: readonly string[] = [...Object.keys(formatBytes), ...Object.keys(packings)];

/** As ggml's `quantize_row_q8_0_ref`: the largest number of a block becomes 127. */
function packQ8(numbers: Float32Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array((numbers.length / 32) * 34);
  for (let block = 0; block * 32 < numbers.length; block++) {
    const values = numbers.subarray(block * 32, block * 32 + 32);
    let largest = 0;
    for (const value of values) largest = Math.max(largest, Math.abs(value));
    const scale = Math.fround(largest / 127);
    const inverse = scale === 0 ? 0 : Math.fround(1 / scale);
    bytes.set(fromFloat32('F16', Float32Array.of(scale)), block * 34);
    for (const [index, value] of values.entries()) {
      const size = Math.abs(Math.fround(value * inverse));
      // Half away from zero.
      const rounded = Math.floor(size) + Math.floor(2 * (size - Math.floor(size)));
      bytes[block * 34 + 2 + index] = value < 0 ? -rounded : rounded;
    }
  }
  return bytes;
}
