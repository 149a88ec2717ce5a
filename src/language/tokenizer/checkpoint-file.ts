import { messageOf } from '../../util/error.ts';
import { isObject } from '../../util/json.ts';
import { isLfsPointer, lfsProblem } from '../../util/lfs-pointer.ts';
import { LanguageError } from '../error.ts';
import type { ModelFiles } from './model-files.ts';

/** Largest files, in bytes. The largest published tokenizers have about 35 MB, the largest templates 60 KB. */
const maxBytes = { json: 128 * 1024 * 1024, text: 256 * 1024 };

/** A JSON file of a checkpoint. Fields are named by their path, such as `model.type`. */
export class CheckpointFile {
  readonly path: string;
  readonly #content: Record<string, unknown>;

  private constructor(path: string, content: Record<string, unknown>) {
    this.path = path;
    this.#content = content;
  }

  /** Throws a `LanguageError` if the file is missing or not an object of JSON. */
  static read(files: ModelFiles, name: string): CheckpointFile {
    return CheckpointFile.parse(files.pathOf(name), CheckpointFile.bytes(files, name));
  }

  /** As `read`; null if the file is missing. */
  static find(files: ModelFiles, name: string): CheckpointFile | null {
    const bytes = bytesOf(files, name, maxBytes.json);
    return bytes && CheckpointFile.parse(files.pathOf(name), bytes);
  }

  /** The text of a file; null if it is missing. */
  static findText(files: ModelFiles, name: string): string | null {
    const bytes = bytesOf(files, name, maxBytes.text);
    if (!bytes) return null;
    if (isLfsPointer(bytes)) throw unsupported(`${files.pathOf(name)} ${lfsProblem}`);
    return bytes.toString();
  }

  /** A file that was read before. */
  static parse(path: string, bytes: Buffer): CheckpointFile {
    if (isLfsPointer(bytes)) throw unsupported(`${path} ${lfsProblem}`);
    let content: unknown;
    try {
      content = JSON.parse(bytes.toString());
    } catch (cause) {
      throw unsupported(`${path} cannot be read as JSON`, { cause });
    }
    if (isObject(content)) return new CheckpointFile(path, content);
    throw unsupported(`${path} must contain a JSON object`);
  }

  /** The bytes of a file. Throws a `LanguageError` if it is missing. */
  static bytes(files: ModelFiles, name: string): Buffer {
    const bytes = bytesOf(files, name, maxBytes.json);
    if (bytes) return bytes;
    throw unsupported(`${files.pathOf(name)} does not exist; the checkpoint's folder must have it`);
  }

  value(field: string): unknown {
    let value: unknown = this.#content;
    for (const key of field.split('.')) {
      const inner: unknown = Array.isArray(value)
        ? value[Number(key)]
        : isObject(value)
          ? value[key]
          : undefined;
      value = inner;
    }
    return value;
  }

  object(field: string): Record<string, unknown> {
    const value = this.value(field);
    return isObject(value) ? value : this.refuse(field, value, 'it must be an object');
  }

  list(field: string): unknown[] {
    const value = this.value(field);
    return Array.isArray(value) ? value : this.refuse(field, value, 'it must be a list');
  }

  expect(field: string, expected: string, why: string): void {
    const value = this.value(field);
    if (value !== expected) this.refuse(field, value, why);
  }

  refuse(field: string, value: unknown, why: string): never {
    const shown = JSON.stringify(value) ?? 'absent';
    throw unsupported(`${this.path}: ${field} is ${shown.slice(0, 200)}; ${why}`);
  }
}

/** Null if the file is missing. */
function bytesOf(files: ModelFiles, name: string, most: number): Buffer | null {
  try {
    return files.bytes(name, most);
  } catch (cause) {
    throw unsupported(`${files.pathOf(name)} cannot be read: ${messageOf(cause)}`, { cause });
  }
}

const unsupported = (message: string, options: ErrorOptions = {}) =>
  new LanguageError('checkpoint_unsupported', message, options);
