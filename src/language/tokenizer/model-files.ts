import { join } from 'node:path';
import { hasCode } from '../../util/error.ts';
import { readRegularFile } from '../../util/regular-file.ts';

/** The files of a model in Hugging Face form, by their names. */
export interface ModelFiles {
  /** Their folder, or the single file that contains them all, such as a GGUF file. */
  readonly path: string;
  /** How error messages name a file. */
  pathOf(name: string): string;
  /** The bytes of one; null if it is missing. @throws an error without its name if it cannot be read, or has more bytes */
  bytes(name: string, most: number): Buffer | null;
}

export const folderFiles = (folder: string): ModelFiles => ({
  path: folder,
  pathOf: (name) => join(folder, name),
  bytes(name, most) {
    try {
      return readRegularFile(join(folder, name), most);
    } catch (error) {
      if (hasCode(error, 'ENOENT', 'ENOTDIR')) return null;
      throw error;
    }
  },
});

export const filesOf = (from: string | ModelFiles): ModelFiles =>
  typeof from === 'string' ? folderFiles(from) : from;
