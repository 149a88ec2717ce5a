import { type Code, f32x4, fused, i32, type MultiplyAdd, separate, unsigned } from './instructions.ts';

/** Numbers of the value types in WebAssembly modules (core specification 2.0, 5.3). */
const typeNumber = { i32: 0x7f, v128: 0x7b } as const;
type ValueType = keyof typeof typeNumber;

/** A variable or a parameter of a function. */
export interface Local {
  get: Code;
  /** Sets it, and leaves nothing. */
  set(value: Code): Code;
}

export type Locals<Name extends string> = Record<Name, Local>;

/** Writes the code of one function. */
export class FunctionWriter {
  /** Number of parameters, which are whole numbers. */
  readonly parameters: number;
  readonly multiplyAdd: MultiplyAdd;
  readonly #locals: ValueType[] = [];
  readonly #code: number[] = [];

  constructor(parameters: number, multiplyAdd: MultiplyAdd) {
    this.parameters = parameters;
    this.multiplyAdd = multiplyAdd;
  }

  local(type: ValueType, value?: Code): Local {
    const added = localAt(this.parameters + this.#locals.push(type) - 1);
    if (value) this.do(added.set(value));
    return added;
  }

  locals(count: number, type: ValueType): Local[] {
    return Array.from({ length: count }, () => this.local(type));
  }

  do(...instructions: Code[]): void {
    for (const instruction of instructions) for (const byte of instruction) this.#code.push(byte);
  }

  /** Adds to a whole number. */
  advance(address: Local, by: number): Code {
    return address.set(i32.add(address.get, i32.constant(by)));
  }

  /** Repeats `body` while the condition that it returns holds; at least once. */
  repeat(body: () => Code): void {
    this.#code.push(0x03, 0x40);
    const condition = body();
    this.do(condition, [0x0d, 0, 0x0b]);
  }

  finish(): Code {
    const locals = this.#locals.map((type) => [1, typeNumber[type]]);
    const body = [...list(locals), ...this.#code, 0x0b];
    return [...unsigned(body.length), ...body];
  }
}

interface WasmModuleOptions {
  relaxedSimd?: boolean;
  isShared?: boolean;
}

/** A module of functions that share an imported memory, `environment.memory`, and return nothing. */
export class WasmModule {
  readonly #functions: { name: string; writer: FunctionWriter }[] = [];
  readonly #multiplyAdd: MultiplyAdd;
  readonly #isShared: boolean;

  /**
   * `relaxedSimd`: whether to use it; by default, if this engine has it. `isShared`: whether the memory is one that threads
   * share; default false.
   */
  constructor({ relaxedSimd = hasRelaxedSimd(), isShared = false }: WasmModuleOptions = {}) {
    this.#multiplyAdd = relaxedSimd ? fused : separate;
    this.#isShared = isShared;
  }

  /** Adds a function of whole numbers, such as addresses in bytes. `write` gets its parameters, by their names. */
  add<Name extends string>(
    name: string,
    parameters: readonly Name[],
    write: (code: FunctionWriter, given: Locals<Name>) => void,
  ): void {
    const writer = new FunctionWriter(parameters.length, this.#multiplyAdd);
    const given = parameters.map((parameter, index) => [parameter, localAt(index)]);
    write(writer, Object.fromEntries(given) as Locals<Name>);
    this.#functions.push({ name, writer });
  }

  finish(): Uint8Array<ArrayBuffer> {
    const writers = this.#functions.map(({ writer }) => writer);
    const types = writers.map(({ parameters }) => [
      0x60,
      ...list(new Array<Code>(parameters).fill([typeNumber.i32])),
      0,
    ]);
    const limits = this.#isShared ? [3, 1, ...unsigned(65_536)] : [0, 1];
    const memory = [...text('environment'), ...text('memory'), 2, ...limits];
    const exports = this.#functions.map(({ name }, index) => [...text(name), 0, ...unsigned(index)]);
    return Uint8Array.from([
      ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
      ...section(1, types),
      ...section(2, [memory]),
      ...section(
        3,
        writers.map((_, index) => unsigned(index)),
      ),
      ...section(7, exports),
      ...section(
        10,
        writers.map((writer) => writer.finish()),
      ),
    ]);
  }
}

function localAt(index: number): Local {
  return { get: [0x20, ...unsigned(index)], set: (value) => [...value, 0x21, ...unsigned(index)] };
}

function hasRelaxedSimd(): boolean {
  const writer = new FunctionWriter(0, fused);
  writer.do(writer.local('v128').set(fused(f32x4.zero, f32x4.zero, f32x4.zero)));
  return WebAssembly.validate(
    Uint8Array.from([
      ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
      ...section(1, [[0x60, 0, 0]]),
      ...section(3, [[0]]),
      ...section(10, [writer.finish()]),
    ]),
  );
}

function section(id: number, items: readonly Code[]): Code {
  const content = list(items);
  return [id, ...unsigned(content.length), ...content];
}

const list = (items: readonly Code[]): Code => [...unsigned(items.length), ...items.flat()];
const text = (value: string): Code => [...unsigned(value.length), ...new TextEncoder().encode(value)];
