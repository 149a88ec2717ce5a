import { showValue } from '../../../../util/show-value.ts';
import { EngineError } from '../../../engine.ts';
import { badCheckpoint } from '../bad-checkpoint.ts';
import type { GgufHeader, GgufValue } from './header.ts';

/** The metadata of a GGUF file, with errors that name the file, the field and its value. */
export class GgufFields {
  readonly path: string;
  readonly #metadata: GgufHeader['metadata'];

  constructor(path: string, { metadata }: GgufHeader) {
    this.path = path;
    this.#metadata = metadata;
  }

  get(name: string): GgufValue | undefined {
    return this.#metadata.get(name);
  }

  text(name: string): string | undefined {
    return this.#find(name, 'a text', (value) => typeof value === 'string');
  }

  number(name: string): number | undefined {
    return this.#find(name, 'a number', (value) => typeof value === 'number');
  }

  flag(name: string): boolean | undefined {
    return this.#find(name, 'true or false', (value) => typeof value === 'boolean');
  }

  texts(name: string): readonly string[] {
    return this.#list(name, 'texts', (value) => typeof value === 'string');
  }

  numbers(name: string): readonly number[] {
    return this.#list(name, 'numbers', (value) => typeof value === 'number');
  }

  namesOf(prefix: string): string[] {
    return [...this.#metadata.keys()].filter((name) => name.startsWith(prefix));
  }

  /** The error for a value that martingale does not support. @param remedy What it supports and what to do, as sentences. */
  unsupported(name: string, remedy: string): EngineError {
    return new EngineError('checkpoint_unsupported', `${this.#describe(name)}. ${remedy}`);
  }

  wrong(name: string, expected: string): EngineError {
    return badCheckpoint(`${this.#describe(name)}. It must be ${expected}.`);
  }

  #find<Value extends GgufValue>(
    name: string,
    kind: string,
    isKind: (value: GgufValue) => value is Value,
  ): Value | undefined {
    const value = this.#metadata.get(name);
    if (value === undefined || isKind(value)) return value;
    throw this.wrong(name, kind);
  }

  #list<Value extends GgufValue>(
    name: string,
    kind: string,
    isKind: (value: GgufValue) => value is Value,
  ): Value[] {
    const value = this.#metadata.get(name);
    if (Array.isArray(value) && value.every(isKind)) return value;
    throw this.wrong(name, `a list of ${kind}`);
  }

  #describe(name: string): string {
    const value = this.#metadata.get(name);
    if (value === undefined) return `${this.path} has no ${name}`;
    const shown = Array.isArray(value) ? `a list of ${value.length}` : showValue(value);
    return `${this.path}: ${name} is ${shown}`;
  }
}
