/** Instructions of WebAssembly that leave one value, or none. */
export type Code = readonly number[];

export const i32 = {
  constant: (value: number): Code => [0x41, ...signed(value)],
  load: (address: Code, offset = 0): Code => [...address, 0x28, 2, ...unsigned(offset)],
  add: (left: Code, right: Code): Code => [...left, ...right, 0x6a],
  subtract: (left: Code, right: Code): Code => [...left, ...right, 0x6b],
  multiply: (left: Code, right: Code): Code => [...left, ...right, 0x6c],
  and: (left: Code, right: Code): Code => [...left, ...right, 0x71],
  /** For values that are not negative. */
  shiftRight: (value: Code, bits: number): Code => [...value, ...i32.constant(bits), 0x76],
  smallest: (left: Code, right: Code): Code => [...left, ...right, ...left, ...right, 0x48, 0x1b],
  differs: (left: Code, right: Code): Code => [...left, ...right, 0x47],
};

export const f32 = {
  constant: (value: number): Code => [0x43, ...bytesOf(value)],
  store: (address: Code, offset: number, value: Code): Code => [
    ...address,
    ...value,
    0x38,
    2,
    ...unsigned(offset),
  ],
  add: (left: Code, right: Code): Code => [...left, ...right, 0x92],
  divide: (left: Code, right: Code): Code => [...left, ...right, 0x95],
  /** NaN if one of the two is. */
  largest: (left: Code, right: Code): Code => [...left, ...right, 0x97],
};

const vector = (code: number, ...operands: Code[]): Code => [...operands.flat(), 0xfd, ...unsigned(code)];

/** Four numbers of 32 bits. */
export const f32x4 = {
  zero: [0xfd, 12, ...new Array<number>(16).fill(0)] as Code,
  all: (value: Code): Code => vector(19, value),
  constant: (value: number): Code => f32x4.all(f32.constant(value)),
  load: (address: Code, offset = 0): Code => [...vector(0, address), 4, ...unsigned(offset)],
  /** Four times the number at an address. */
  loadAll: (address: Code, offset = 0): Code => [...vector(9, address), 2, ...unsigned(offset)],
  store: (address: Code, offset: number, value: Code): Code => [
    ...vector(11, address, value),
    4,
    ...unsigned(offset),
  ],
  lane: (value: Code, lane: number): Code => [...vector(31, value), lane],
  add: (left: Code, right: Code): Code => vector(228, left, right),
  subtract: (left: Code, right: Code): Code => vector(229, left, right),
  multiply: (left: Code, right: Code): Code => vector(230, left, right),
  divide: (left: Code, right: Code): Code => vector(231, left, right),
  /** NaN where one of the two is. */
  largest: (left: Code, right: Code): Code => vector(233, left, right),
  root: (value: Code): Code => vector(227, value),
  nearest: (value: Code): Code => vector(106, value),
  isLess: (left: Code, right: Code): Code => vector(67, left, right),
  /** `value` where the bits of `mask` are 0, and 0 elsewhere. */
  except: (value: Code, mask: Code): Code => vector(79, value, mask),
  /** `yes` where the bits of `mask` are 1, and `no` elsewhere. */
  choose: (yes: Code, no: Code, mask: Code): Code => vector(82, yes, no, mask),
};

/** Two numbers of 64 bits. */
export const f64x2 = {
  /** Two numbers of 32 bits. */
  loadFloats: (address: Code, offset = 0): Code =>
    vector(95, [...vector(93, address), 3, ...unsigned(offset)]),
  add: (left: Code, right: Code): Code => vector(240, left, right),
  multiply: (left: Code, right: Code): Code => vector(242, left, right),
  store: f32x4.store,
};

/** Four whole numbers of 32 bits. */
export const i32x4 = {
  all: (value: Code): Code => vector(17, value),
  constant: (...values: readonly [number, number, number, number]): Code => [
    ...vector(12),
    ...new Uint8Array(Int32Array.from(values).buffer),
  ],
  isGreater: (left: Code, right: Code): Code => vector(59, left, right),
  add: (left: Code, right: Code): Code => vector(174, left, right),
  shiftLeft: (value: Code, bits: number): Code => vector(171, value, i32.constant(bits)),
  /** The whole part of numbers, which fit. */
  truncate: (value: Code): Code => vector(248, value),
};

/**
 * `left * right + sum`, rounded once where the processor has such an instruction (relaxed SIMD), and twice on an engine
 * without relaxed SIMD.
 */
export type MultiplyAdd = (left: Code, right: Code, sum: Code) => Code;

export const fused: MultiplyAdd = (left, right, sum) => vector(261, left, right, sum);
export const separate: MultiplyAdd = (left, right, sum) => f32x4.add(f32x4.multiply(left, right), sum);

const bytesOf = (value: number): Code => [...new Uint8Array(Float32Array.of(value).buffer)];

/** A whole number in LEB128, unsigned. */
export function unsigned(value: number): Code {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 0x7f; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80);
  return [...bytes, rest];
}

/** A whole number in LEB128, signed. */
function signed(value: number): Code {
  const bytes: number[] = [];
  let rest = value;
  for (; rest < -64 || rest > 63; rest >>= 7) bytes.push((rest & 0x7f) | 0x80);
  return [...bytes, rest & 0x7f];
}
