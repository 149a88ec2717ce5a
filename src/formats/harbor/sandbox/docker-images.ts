import { createHash } from 'node:crypto';
import { lstat, readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { untilAborted } from '../../../util/deadline.ts';
import type { Docker } from './docker.ts';
import type { SandboxImage } from './sandbox.ts';

/** The images of tasks: pulled or built once, however many rollouts wait for one. */
export class DockerImages {
  readonly #docker: Docker;
  readonly #images = new Map<string, Promise<string>>();

  constructor(docker: Docker) {
    this.#docker = docker;
  }

  /**
   * The name of an image that is there. A rollout that stops waiting does not stop the build.
   * @throws HarborError (`sandbox_failed`), and tries again at the next call; the signal's reason.
   */
  async get(image: SandboxImage, signal: AbortSignal): Promise<string> {
    const key = image.name ?? `martingale-task:${await hashOf(image.folder)}`;
    let making = this.#images.get(key);
    if (!making) {
      making = image.name === null ? this.#build(key, image) : this.#pull(key, image.buildTimeoutMs);
      this.#images.set(key, making);
      making.catch(() => this.#images.delete(key));
    }
    return untilAborted(making, signal);
  }

  async #pull(name: string, timeoutMs: number): Promise<string> {
    if (!(await this.#isThere(name))) await this.#docker.must(['pull', name], { timeoutMs, signal: never });
    return name;
  }

  async #build(name: string, { folder, buildTimeoutMs }: SandboxImage): Promise<string> {
    const options = { timeoutMs: buildTimeoutMs, signal: never };
    if (!(await this.#isThere(name))) await this.#docker.must(['build', '--tag', name, folder], options);
    return name;
  }

  async #isThere(name: string): Promise<boolean> {
    const { exitCode } = await this.#docker.run(['image', 'inspect', name], { signal: never });
    return exitCode === 0;
  }
}

const never = new AbortController().signal;

/** Hash of the files and links of a folder: names, contents, and whether they can be run. */
async function hashOf(folder: string): Promise<string> {
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
