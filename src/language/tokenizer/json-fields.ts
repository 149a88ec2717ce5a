import { messageOf } from '../../util/error.ts';
import { isObject, type JsonObject } from '../../util/json.ts';
import { isLfsPointer, lfsProblem } from '../../util/lfs-pointer.ts';
import { showValue } from '../../util/show-value.ts';
import { LanguageError } from '../error.ts';
import { filesOf, type ModelFiles } from './model-files.ts';

/** Largest files, in bytes. The largest published tokenizers have about 35 MB, the largest templates 60 KB. */
const maxBytes = { json: 128 * 1024 * 1024, text: 256 * 1024 };

/** The values of a number. */
interface Range {
  least: number;
  most: number;
  /** Used when the field is missing. Without it the field is required. */
  fallback?: number;
}

/**
 * The fields of a JSON file of a checkpoint, or of an object inside it. Each name may be a path, such as `model.type`.
 * Errors name the file, the field and its value: LanguageError, `bad_checkpoint` for a file that is broken and
 * `checkpoint_unsupported` for one that martingale does not run.
 */
export class JsonFields {
  readonly path: string;
  readonly fields: JsonObject;
  /** What precedes the name of a field: `rope_scaling.` */
  readonly #prefix: string;

  private constructor(path: string, fields: JsonObject, prefix = '') {
    this.path = path;
    this.fields = fields;
    this.#prefix = prefix;
  }

  static read(from: string | ModelFiles, name: string): JsonFields {
    const files = filesOf(from);
    return JsonFields.parse(files.pathOf(name), readBytes(files, name));
  }

  /** As `read`, but undefined if there is no such file. */
  static find(from: string | ModelFiles, name: string): JsonFields | undefined {
    const files = filesOf(from);
    const bytes = findBytes(files, name, maxBytes.json);
    return bytes ? JsonFields.parse(files.pathOf(name), bytes) : undefined;
  }

  /** The fields of a file that was read before. */
  static parse(path: string, bytes: Buffer): JsonFields {
    let value: unknown;
    try {
      value = JSON.parse(bytes.toString());
    } catch (cause) {
      throw broken(`${path} is not JSON: ${messageOf(cause)}. Fetch it again.`, { cause });
    }
    if (isObject(value)) return new JsonFields(path, value);
    throw broken(`${path} holds ${showValue(value)}. It must be a JSON object.`);
  }

  /** The value of a field; undefined if it is null too. */
  get(name: string): unknown {
    let value: unknown = this.fields;
    for (const key of name.split('.')) {
      const outer: unknown = value;
      value = isObject(outer) ? outer[key] : Array.isArray(outer) ? outer[Number(key)] : undefined;
    }
    return value ?? undefined;
  }

  /** The object in a field, or undefined. */
  nested(name: string): JsonFields | undefined {
    if (this.get(name) === undefined) return undefined;
    return new JsonFields(this.path, this.object(name), `${this.#prefix}${name}.`);
  }

  object(name: string): JsonObject {
    const value = this.get(name);
    if (isObject(value)) return value;
    throw this.wrong(name, 'an object');
  }

  list(name: string): unknown[] {
    const value = this.get(name);
    if (Array.isArray(value)) return value;
    throw this.wrong(name, 'a list');
  }

  number(name: string, { least, most, fallback }: Range): number {
    const value = this.get(name) ?? fallback;
    if (typeof value === 'number' && value >= least && value <= most) return value;
    throw this.wrong(name, `a number of ${least} to ${most}`);
  }

  /** A whole number of 1 to `most`. */
  count(name: string, most: number, fallback?: number): number {
    const value = this.get(name) ?? fallback;
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 1 && value <= most) return value;
    throw this.wrong(name, `a whole number of 1 to ${most}`);
  }

  flag(name: string, fallback: boolean): boolean {
    const value = this.get(name) ?? fallback;
    if (typeof value === 'boolean') return value;
    throw this.wrong(name, 'true or false');
  }

  /** Token ids in a field that holds one, a list or nothing. */
  tokens(name: string): number[] {
    const value = this.get(name) ?? [];
    const tokens: unknown[] = Array.isArray(value) ? value : [value];
    return tokens.map((token) => {
      if (isTokenId(token)) return token;
      throw this.wrong(name, 'a token id or a list of token ids');
    });
  }

  /** Refuses every other value of a field. @param remedy What martingale supports. */
  expect(name: string, value: string | boolean, remedy: string): void {
    if (this.get(name) !== value) throw this.unsupported(name, remedy);
  }

  /**
   * The error for a value that martingale does not support.
   * @param remedy What it supports and what to do, as sentences.
   * @param value Default: what the field holds.
   */
  unsupported(name: string, remedy: string, value = this.get(name)): LanguageError {
    return unsupported(`${this.#describe(name, value)}. ${remedy}`);
  }

  /** The error for a value that makes no sense. @param value Default: what the field holds. */
  wrong(name: string, expected: string, value = this.get(name)): LanguageError {
    return broken(`${this.#describe(name, value)}. It must be ${expected}.`);
  }

  #describe(name: string, value: unknown): string {
    const shown =
      isObject(value) || Array.isArray(value) ? JSON.stringify(value).slice(0, 200) : showValue(value);
    return value === undefined
      ? `${this.path} has no ${this.#prefix}${name}`
      : `${this.path}: ${this.#prefix}${name} is ${shown}`;
  }
}

export const isTokenId = (value: unknown): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;

/** The bytes of a file of JSON. @throws LanguageError (`bad_checkpoint`), also if it is missing. */
export function readBytes(files: ModelFiles, name: string): Buffer {
  const bytes = findBytes(files, name, maxBytes.json);
  if (bytes) return bytes;
  throw broken(
    `${files.pathOf(name)} does not exist. The folder must hold a checkpoint in Hugging Face form.`,
  );
}

/** The text of a file; null if it is missing. @throws LanguageError (`bad_checkpoint`) */
export const findText = (files: ModelFiles, name: string): string | null =>
  findBytes(files, name, maxBytes.text)?.toString() ?? null;

function findBytes(files: ModelFiles, name: string, most: number): Buffer | null {
  const path = files.pathOf(name);
  let bytes: Buffer | null;
  try {
    bytes = files.bytes(name, most);
  } catch (cause) {
    throw broken(`${path} cannot be read: ${messageOf(cause)}`, { cause });
  }
  if (bytes && isLfsPointer(bytes)) throw broken(`${path} ${lfsProblem}.`);
  return bytes;
}

const broken = (message: string, options: ErrorOptions = {}) =>
  new LanguageError('bad_checkpoint', message, options);

/** The error for a model that martingale does not run. */
export const unsupported = (message: string, options: ErrorOptions = {}) =>
  new LanguageError('checkpoint_unsupported', message, options);
