import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { lstat, mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { hasCode } from '../../../util/error.ts';
import { HarborError } from '../errors.ts';

/** The folder of this user's sandboxes. */
const home = () => join(tmpdir(), `martingale-sandboxes-${process.getuid?.() ?? 'user'}`);

/** A new folder whose name says which process it belongs to. @throws HarborError (`sandbox_away`) */
export async function newFolder(): Promise<string> {
  const folder = join(home(), `${await thisProcess()}-${randomUUID()}`);
  await mkdir(home(), { mode: 0o700 }).catch(ignoreExisting);
  await checkOwner();
  await mkdir(folder, { mode: 0o755 });
  return folder;
}

const ignoreExisting = (error: unknown) => {
  if (!hasCode(error, 'EEXIST')) throw error;
};

/**
 * Others may write the temporary folder too: what they have put there under our name would be the root of a sandbox, or
 * lead the deletion of old ones elsewhere.
 */
async function checkOwner(): Promise<void> {
  const found = await lstat(home());
  if (found.isDirectory() && found.uid === process.getuid?.() && (found.mode & 0o077) === 0) return;
  const what = found.isDirectory()
    ? `has the owner ${found.uid} and the mode ${(found.mode & 0o777).toString(8)}`
    : 'is not a folder';
  throw new HarborError(
    'sandbox_away',
    `${home()} ${what}, but must be a folder of this user alone (mode 700): remove it, or set TMPDIR to another folder.`,
  );
}

/**
 * Deletes the folders of processes that have ended without doing so, such as killed ones.
 * @throws HarborError (`sandbox_away`)
 */
export async function sweep(): Promise<void> {
  try {
    await checkOwner();
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return;
    throw error;
  }
  for (const name of await readdir(home()).catch(() => []))
    if (await hasEnded(name)) await removeFolder(join(home(), name)).catch(() => undefined);
}

const run = promisify(execFile);

/** Deletes a sandbox's folder. No process of the sandbox may run any more. */
export async function removeFolder(folder: string): Promise<void> {
  try {
    await rm(folder, { recursive: true, force: true });
  } catch {
    // Folders may be deeper than a path can be long, or closed to their owner.
    await run('chmod', ['-R', 'u+rwx', '--', folder]).catch(() => undefined);
    await run('rm', ['-rf', '--', folder]);
  }
}

/** A name of this process: its number and its start. The names of its containers and folders begin with it. */
export const thisProcess = async (): Promise<string> => `${process.pid}-${await startOf(process.pid)}`;

/** Whether the process has ended whose name this name begins with. */
export async function hasEnded(name: string): Promise<boolean> {
  const [pid = '', start = ''] = name.split('-');
  return (await startOf(Number(pid))) !== start;
}

/** When a process started, in ticks since the machine did: numbers of processes are used again. Empty without a process. */
async function startOf(pid: number): Promise<string> {
  const line = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  // The name of the program, in brackets, may have spaces.
  return line.slice(line.lastIndexOf(')') + 2).split(' ')[19] ?? '';
}
