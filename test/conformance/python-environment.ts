import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

export interface PythonEnvironmentOptions {
  /** What is tested, for the message that says it was skipped. */
  what: string;
  /** Packages with versions, such as `httpx==0.28.1`, including their dependencies. */
  requirements: readonly string[];
  /** Oldest minor version of Python 3. Default 10. */
  minor?: number;
}

export interface PythonEnvironment {
  /** The interpreter: `run(python, ['-m', ...])`. Programs in its `bin` cannot be called by name. */
  python: string;
}

const cache = join(import.meta.dirname, '../../node_modules/.cache/python');
const installTimeoutMs = 300_000;

/**
 * A Python environment with packages from the registry, created once and cached in `node_modules/.cache`. Null, with a
 * line on the terminal, if there is no Python or the packages cannot be fetched: then skip the test.
 * `MARTINGALE_PYTHON` names another interpreter.
 */
export async function pythonEnvironment({
  what,
  requirements,
  minor = 10,
}: PythonEnvironmentOptions): Promise<PythonEnvironment | null> {
  const skip = (reason: string) => {
    process.stderr.write(`\nNOT RUN: ${what}. ${reason}\n\n`);
    return null;
  };
  const found = await findPython(minor);
  if (!found) return skip(`There is no Python 3.${minor} or newer on this machine.`);
  const hash = createHash('sha256')
    .update([found.version, ...requirements].join('\n'))
    .digest('hex');
  const folder = join(cache, hash.slice(0, 16));
  if (!existsSync(folder)) {
    try {
      await install(found.python, requirements, folder);
    } catch (error) {
      const told = error instanceof Error ? error.message : String(error);
      return skip(`Its Python packages could not be installed: ${told.slice(-1000)}`);
    }
  }
  return { python: interpreterIn(folder) };
}

/** Installs into a temporary folder and renames it, so that it is complete even if several tests install at once. */
async function install(python: string, requirements: readonly string[], folder: string): Promise<void> {
  await mkdir(cache, { recursive: true });
  const making = await mkdtemp(`${folder}-`);
  try {
    await run(python, ['-m', 'venv', making], { timeout: installTimeoutMs });
    const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-input'];
    const limits = ['--retries', '1', '--timeout', '20'];
    await run(interpreterIn(making), [...pip, ...limits, ...requirements], { timeout: installTimeoutMs });
    await rename(making, folder);
  } catch (error) {
    await rm(making, { recursive: true, force: true });
    if (!existsSync(folder)) throw error;
  }
}

const interpreterIn = (folder: string) =>
  process.platform === 'win32' ? join(folder, 'Scripts', 'python.exe') : join(folder, 'bin', 'python');

async function findPython(minor: number): Promise<{ python: string; version: string } | null> {
  const named = process.env.MARTINGALE_PYTHON;
  const candidates = named ? [named] : ['python3', 'python3.13', 'python3.12', 'python3.11', 'python'];
  for (const python of candidates) {
    const program = 'import sys; print(sys.version_info[0], sys.version_info[1], sys.executable)';
    const answer = await run(python, ['-c', program], { timeout: 20_000 }).catch(() => null);
    const [, major, own, executable] = /^(\d+) (\d+) (.+)$/m.exec(answer?.stdout ?? '') ?? [];
    if (major === '3' && Number(own) >= minor && executable !== undefined)
      return { python: executable, version: `${major}.${own}` };
  }
  return null;
}
