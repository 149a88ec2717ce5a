import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isObject } from '../../util/json.ts';
import { isLfsPointer, lfsProblem } from '../../util/lfs-pointer.ts';
import { LanguageError } from '../error.ts';

/** A JSON file of a checkpoint's folder. Fields are named by their path, such as `model.type`. */
export class CheckpointFile {
  readonly path: string;
  readonly #content: Record<string, unknown>;

  private constructor(path: string, content: Record<string, unknown>) {
    this.path = path;
    this.#content = content;
  }

  /** Throws a `LanguageError` if the file is missing or not an object of JSON. */
  static read(folder: string, name: string): CheckpointFile {
    const file = CheckpointFile.find(folder, name);
    if (file) return file;
    throw unsupported(`${join(folder, name)} does not exist; the checkpoint's folder must have it`);
  }

  /** The same; null if the file is missing. */
  static find(folder: string, name: string): CheckpointFile | null {
    const path = join(folder, name);
    return existsSync(path) ? CheckpointFile.parse(path, readFileSync(path)) : null;
  }

  /** A text of a folder; null if the file is missing. */
  static findText(folder: string, ...names: string[]): string | null {
    const path = join(folder, ...names);
    if (!existsSync(path)) return null;
    const bytes = readFileSync(path);
    if (isLfsPointer(bytes)) throw unsupported(`${path} ${lfsProblem}`);
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

const unsupported = (message: string, options: ErrorOptions = {}) =>
  new LanguageError('checkpoint_unsupported', message, options);
