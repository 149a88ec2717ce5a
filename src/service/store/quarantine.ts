import { randomUUID } from 'node:crypto';
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { privateFolder, syncFolder } from '../../util/durable-files.ts';
import { hasCode } from '../../util/error.ts';
import type { ServiceLog } from '../telemetry.ts';
import { copyPart } from './durable-files.ts';

/** How long what no record names is kept, in milliseconds. */
export const quarantineMs = 7 * 24 * 3_600_000;

const folderName = 'quarantine';
const isOwn = /^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-[0-9a-f]{8}$/;

/** A new name that begins with the time. */
export const timedName = (): string =>
  `${new Date().toISOString().slice(0, 19).replaceAll(':', '-')}-${randomUUID().slice(0, 8)}`;

/**
 * Keeps files of the data folder that no record names, as `quarantine/<time of the start>/<their path>`. Records may be
 * older than files, for example in a copy without the database's side file. The files are then all that is left.
 */
export class Quarantine {
  readonly #root: string;
  readonly #log: ServiceLog;
  readonly #folder: string;

  constructor(root: string, log: ServiceLog) {
    this.#root = root;
    this.#log = log;
    this.#folder = join(folderName, timedName());
  }

  /** Moves a file or folder. @param path Relative to the data folder. */
  async take(path: string): Promise<void> {
    const target = await this.#prepare(path);
    await rename(join(this.#root, path), join(this.#root, target));
    await syncFolder(dirname(join(this.#root, target)));
    await syncFolder(dirname(join(this.#root, path)));
    this.#say(path, target);
  }

  /** Copies a file's bytes from `start` on. The caller cuts them off afterwards. */
  async takeEnd(path: string, start: number): Promise<void> {
    const target = await this.#prepare(`${path}.from-${start}`);
    await copyPart(join(this.#root, path), join(this.#root, target), { start });
    await syncFolder(dirname(join(this.#root, target)));
    this.#say(path, target);
  }

  /** Removes what has been here for `quarantineMs`. @param now In milliseconds since 1970. */
  async removeOld(now: number): Promise<void> {
    const names = await readdir(join(this.#root, folderName)).catch((error: unknown) => {
      if (hasCode(error, 'ENOENT')) return [];
      throw error;
    });
    for (const name of names.filter((one) => isOwn.test(one))) {
      const [date = '', time = ''] = name.slice(0, 19).split('T');
      if (Date.parse(`${date}T${time.replaceAll('-', ':')}Z`) < now - quarantineMs)
        await rm(join(this.#root, folderName, name), { recursive: true, force: true });
    }
  }

  async #prepare(path: string): Promise<string> {
    const target = join(this.#folder, path);
    await mkdir(dirname(join(this.#root, target)), { recursive: true, mode: privateFolder });
    return target;
  }

  #say(path: string, target: string): void {
    const days = quarantineMs / 24 / 3_600_000;
    this.#log({ level: 'warn', event: 'file_without_record', path, moved_to: target, kept_days: days });
  }
}
