import { randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The folder of this user's sandboxes. */
const home = () => join(tmpdir(), `martingale-sandboxes-${process.getuid?.() ?? 'user'}`);

/** A new folder whose name says which process it belongs to. */
export async function newFolder(): Promise<string> {
  const folder = join(home(), `${await thisProcess()}-${randomUUID()}`);
  await mkdir(home(), { recursive: true, mode: 0o700 });
  await mkdir(folder, { mode: 0o755 });
  return folder;
}

/** Deletes the folders of processes that have ended without doing so, such as killed ones. */
export async function sweep(): Promise<void> {
  for (const name of await readdir(home()).catch(() => []))
    if (await hasEnded(name))
      await rm(join(home(), name), { recursive: true, force: true }).catch(() => undefined);
}

/** A name of this process: its number and its start. Names of what belongs to it begin so. */
export const thisProcess = async (): Promise<string> => `${process.pid}-${await startOf(process.pid)}`;

/** Whether the process has ended with whose name a name begins. */
export async function hasEnded(name: string): Promise<boolean> {
  const [pid = '', start = ''] = name.split('-');
  return (await startOf(Number(pid))) !== start;
}

/** When a process started, in ticks since the machine did; empty if there is none. Numbers of processes come again. */
async function startOf(pid: number): Promise<string> {
  const line = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  // The name of the program, in brackets, may have spaces.
  return line.slice(line.lastIndexOf(')') + 2).split(' ')[19] ?? '';
}
