/**
 * A seeded random number generator: sfc32 (Chris Doty-Humphrey's Small Fast Counting generator, 128 bits of state),
 * seeded with 64 bits.
 */
export class Random {
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  constructor(seed: number | bigint) {
    const bits = BigInt.asUintN(64, BigInt(typeof seed === 'number' ? Math.trunc(seed) : seed));
    this.#a = Number(bits & 0xffffffffn) | 0;
    this.#b = Number(bits >> 32n) | 0;
    this.#c = 0x9e3779b9 | 0;
    for (let round = 0; round < 15; round++) this.#next();
  }

  /** A number in [0, 1) with 32 random bits. */
  uniform(): number {
    return (this.#next() >>> 0) / 4294967296;
  }

  /** A number from the standard normal distribution (Box-Muller transform). */
  normal(): number {
    return Math.sqrt(-2 * Math.log(1 - this.uniform())) * Math.cos(2 * Math.PI * this.uniform());
  }

  #next(): number {
    const result = (((this.#a + this.#b) | 0) + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + result) | 0;
    return result;
  }
}
