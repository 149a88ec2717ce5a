import type { Dirent } from 'node:fs';
import { readdir, readlink, realpath } from 'node:fs/promises';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { HarborError } from './errors.ts';

/** Most files and folders of a task. */
const maxFiles = 100_000;

/**
 * Refuses a task folder that holds anything but files, folders and links within it. A link that leads out would bring
 * files of this machine to the agent; a pipe would be read forever.
 * @throws HarborError (`task_unsupported`) that names the file
 */
export async function checkFiles(folder: string): Promise<void> {
  const root = await realpath(folder);
  const folders = [folder];
  let files = 0;
  for (let at = folders.pop(); at !== undefined; at = folders.pop())
    for (const entry of await readdir(at, { withFileTypes: true })) {
      const path = join(at, entry.name);
      if (entry.isDirectory()) folders.push(path);
      else await checkFile(entry, path, { folder, root });
      files += 1;
      if (files > maxFiles) throw refused(folder, `it has more than ${maxFiles} files`);
    }
}

async function checkFile(
  entry: Dirent,
  path: string,
  { folder, root }: { folder: string; root: string },
): Promise<void> {
  if (entry.isFile()) return;
  const name = relative(folder, path);
  if (!entry.isSymbolicLink())
    throw refused(folder, `${name} is neither a file nor a folder: a pipe, a socket or a device`);
  // A link to nothing stays one in the sandbox.
  const target = await realpath(path).catch(async () => resolve(root, dirname(name), await readlink(path)));
  if (target !== root && !target.startsWith(root + sep))
    throw refused(
      folder,
      `${name} is a link out of the task's folder, to ${target}: put a copy of the file there`,
    );
}

const refused = (folder: string, problem: string) =>
  new HarborError('task_unsupported', `${folder}: ${problem}`);
