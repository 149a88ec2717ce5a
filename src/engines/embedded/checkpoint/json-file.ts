import { filesOf, type ModelFiles } from '../../../language/index.ts';
import { messageOf } from '../../../util/error.ts';
import { isObject, type JsonObject } from '../../../util/json.ts';
import { isLfsPointer, lfsProblem } from '../../../util/lfs-pointer.ts';
import { showValue } from '../../../util/show-value.ts';
import { EngineError } from '../../engine.ts';

/** The error for a checkpoint that is broken: files that are missing, cut off or contradict each other. */
export const badCheckpoint = (problem: string): EngineError => new EngineError('bad_checkpoint', problem);

/** The values of a number. */
interface Range {
  least: number;
  most: number;
  /** Used when the field is missing. Without it the field is required. */
  fallback?: number;
}

/** Largest JSON file of a checkpoint, in bytes: the largest are indices of many tensors. */
const maxJsonBytes = 64 * 1024 * 1024;

/** The fields of a JSON file, or of an object inside it, with errors that name the file and the field. */
export class JsonFields {
  readonly path: string;
  readonly fields: JsonObject;
  /** What precedes the name of a field: `rope_scaling.` */
  readonly #prefix: string;

  constructor(path: string, fields: JsonObject, prefix = '') {
    this.path = path;
    this.fields = fields;
    this.#prefix = prefix;
  }

  /** Reads a file that holds a JSON object. @throws EngineError (`bad_checkpoint`) */
  static read(from: string | ModelFiles, name: string): JsonFields {
    const file = JsonFields.find(from, name);
    if (file) return file;
    const path = filesOf(from).pathOf(name);
    throw badCheckpoint(`${path} does not exist: the folder must hold a checkpoint in Hugging Face form`);
  }

  /** As `read`, but undefined if there is no such file. */
  static find(from: string | ModelFiles, name: string): JsonFields | undefined {
    const files = filesOf(from);
    const path = files.pathOf(name);
    let content: Buffer | null;
    try {
      content = files.bytes(name, maxJsonBytes);
    } catch (error) {
      throw badCheckpoint(`${path} cannot be read: ${messageOf(error)}`);
    }
    if (!content) return undefined;
    if (isLfsPointer(content)) throw badCheckpoint(`${path} ${lfsProblem}`);
    let value: unknown;
    try {
      value = JSON.parse(content.toString());
    } catch (error) {
      throw badCheckpoint(`${path} is not JSON: ${messageOf(error)}. Fetch it again`);
    }
    if (!isObject(value)) throw badCheckpoint(`${path} holds ${showValue(value)}, not a JSON object`);
    return new JsonFields(path, value);
  }

  /** The value of a field; undefined if it is null too. */
  get(name: string): unknown {
    return this.fields[name] ?? undefined;
  }

  /** The object in a field, or undefined. */
  nested(name: string): JsonFields | undefined {
    const value = this.get(name);
    if (value === undefined) return undefined;
    if (!isObject(value)) throw this.#wrong(name, 'an object');
    return new JsonFields(this.path, value, `${this.#prefix}${name}.`);
  }

  /** A number within a range. */
  number(name: string, { least, most, fallback }: Range): number {
    const value = this.get(name) ?? fallback;
    if (typeof value === 'number' && value >= least && value <= most) return value;
    throw this.#wrong(name, `a number of ${least} to ${most}`);
  }

  /** A whole number of 1 to `most`. */
  count(name: string, most: number, fallback?: number): number {
    const value = this.get(name) ?? fallback;
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 1 && value <= most) return value;
    throw this.#wrong(name, `a whole number of 1 to ${most}`);
  }

  flag(name: string, fallback: boolean): boolean {
    const value = this.get(name) ?? fallback;
    if (typeof value === 'boolean') return value;
    throw this.#wrong(name, 'true or false');
  }

  /** Token ids in a field that holds one, a list or nothing. */
  tokens(name: string): number[] {
    const value = this.get(name) ?? [];
    const tokens: unknown[] = Array.isArray(value) ? value : [value];
    return tokens.map((token) => {
      if (typeof token === 'number' && Number.isSafeInteger(token) && token >= 0) return token;
      throw this.#wrong(name, 'a token id or a list of token ids');
    });
  }

  /** The error for a field whose value martingale does not support. @param remedy What it supports, what to do. */
  unsupported(name: string, remedy: string): EngineError {
    return new EngineError('checkpoint_unsupported', `${this.#describe(name)}: ${remedy}`);
  }

  #wrong(name: string, expected: string): EngineError {
    return badCheckpoint(`${this.#describe(name)}, but must be ${expected}`);
  }

  #describe(name: string): string {
    const value = this.get(name);
    const shown =
      isObject(value) || Array.isArray(value) ? JSON.stringify(value).slice(0, 200) : showValue(value);
    return value === undefined
      ? `${this.path} has no ${this.#prefix}${name}`
      : `${this.path}: ${this.#prefix}${name} is ${shown}`;
  }
}
