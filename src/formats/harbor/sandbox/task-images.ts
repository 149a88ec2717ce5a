import { createHash } from 'node:crypto';
import { lstat, readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { untilAborted } from '../../../util/deadline.ts';
import type { SandboxImage } from './sandbox.ts';

/** The images of tasks: each is made once, however many rollouts wait for it. */
export class TaskImages {
  readonly #make: (name: string, image: SandboxImage) => Promise<void>;
  readonly #nameOf: (image: SandboxImage) => Promise<string>;
  readonly #images = new Map<string, Promise<void>>();

  constructor(
    nameOf: (image: SandboxImage) => Promise<string>,
    make: (name: string, image: SandboxImage) => Promise<void>,
  ) {
    this.#nameOf = nameOf;
    this.#make = make;
  }

  /**
   * The name of an image that is there. A rollout that stops waiting does not stop the build.
   * @throws what `make` throws, and tries again at the next call; the signal's reason.
   */
  async get(image: SandboxImage, signal: AbortSignal): Promise<string> {
    const name = await this.#nameOf(image);
    let making = this.#images.get(name);
    if (!making) {
      making = this.#make(name, image);
      this.#images.set(name, making);
      making.catch(() => this.#images.delete(name));
    }
    await untilAborted(making, signal);
    return name;
  }
}

/** Hash of the files and links of a folder: names, contents, and whether they can be run. */
export async function hashOfFolder(folder: string): Promise<string> {
  const hash = createHash('sha256');
  for (const name of (await readdir(folder, { recursive: true })).sort()) {
    const path = join(folder, name);
    const found = await lstat(path);
    if (!found.isFile() && !found.isSymbolicLink()) continue;
    const content = found.isFile() ? await readFile(path) : Buffer.from(await readlink(path));
    hash.update(`${name}\n${content.byteLength} ${(found.mode & 0o111) !== 0}\n`).update(content);
  }
  return hash.digest('hex').slice(0, 20);
}
