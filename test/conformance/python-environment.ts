import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

export interface PythonPackages {
  /** Packages with versions, such as `httpx==0.28.1`. */
  requirements: readonly string[];
  /** More arguments of pip: `--no-deps` installs nothing but `requirements`. */
  pipArguments?: readonly string[];
  /** Oldest minor version of Python 3. Default 10. */
  minor?: number;
  /** Default 300000. */
  installTimeoutMs?: number;
  /** Is called with the folder of the environment before it is installed, not when it is cached. */
  onInstall?: (folder: string) => void;
}

export interface PythonEnvironment {
  /** The interpreter: `run(python, ['-m', ...])`. Programs in its `bin` cannot be called by name. */
  python: string;
}

const cache = join(import.meta.dirname, '../../node_modules/.cache/python');

/**
 * The environment that a test needs. Null, with a line on the terminal that names `what` is not tested, if there is no
 * Python or the packages cannot be fetched: then skip the test.
 */
export async function pythonEnvironment({
  what,
  ...packages
}: PythonPackages & { what: string }): Promise<PythonEnvironment | null> {
  try {
    return await createPythonEnvironment(packages);
  } catch (error) {
    console.warn(`NOT RUN: ${what}. ${error instanceof Error ? error.message : error}`);
    return null;
  }
}

/**
 * A Python environment with packages from the registry, created once and cached in `node_modules/.cache`. Throws if
 * there is no Python or the packages cannot be fetched. `MARTINGALE_PYTHON` names another interpreter.
 */
export async function createPythonEnvironment(packages: PythonPackages): Promise<PythonEnvironment> {
  const { requirements, minor = 10, onInstall } = packages;
  const found = await findPython(minor);
  if (!found) throw new Error(`There is no Python 3.${minor} or newer on this machine.`);
  const hash = createHash('sha256')
    .update([found.version, ...requirements].join('\n'))
    .digest('hex');
  const folder = join(cache, hash.slice(0, 16));
  if (!existsSync(folder)) {
    onInstall?.(folder);
    try {
      await install(found.python, packages, folder);
    } catch (error) {
      const told = error instanceof Error ? error.message : String(error);
      throw new Error(`Its Python packages could not be installed: ${told.slice(-1000)}`, { cause: error });
    }
  }
  return { python: interpreterIn(folder) };
}

/** Installs into a temporary folder and renames it, so that it is complete even if several tests install at once. */
async function install(python: string, packages: PythonPackages, folder: string): Promise<void> {
  const { requirements, pipArguments = [], installTimeoutMs: timeout = 300_000 } = packages;
  await mkdir(cache, { recursive: true });
  const making = await mkdtemp(`${folder}-`);
  try {
    // The environment needs no pip of its own, and modules that are compiled when they are imported: half of the time.
    const hasPip = await installsElsewhere(python);
    await run(python, ['-m', 'venv', ...(hasPip ? ['--without-pip'] : []), making], { timeout });
    const own = interpreterIn(making);
    const [installer, pip] = hasPip
      ? ([python, ['-m', 'pip', '--python', own]] as const)
      : ([own, ['-m', 'pip']] as const);
    const flags = ['--quiet', '--disable-pip-version-check', '--no-input', '--no-compile'];
    const limits = ['--retries', '1', '--timeout', '20'];
    const install = [...pip, 'install', ...flags, ...limits, ...pipArguments, ...requirements];
    await run(installer, install, { timeout });
    await rename(making, folder);
  } catch (error) {
    await rm(making, { recursive: true, force: true });
    if (!existsSync(folder)) throw error;
  }
}

/** Whether the pip of an interpreter can install for another one, as it can from 22.3 on. */
async function installsElsewhere(python: string): Promise<boolean> {
  const said = await run(python, ['-m', 'pip', '--version'], { timeout: 20_000 }).catch(() => null);
  const [, major, minor] = /^pip (\d+)\.(\d+)/.exec(said?.stdout ?? '') ?? [];
  return Number(major) > 22 || (major === '22' && Number(minor) >= 3);
}

const interpreterIn = (folder: string) =>
  process.platform === 'win32' ? join(folder, 'Scripts', 'python.exe') : join(folder, 'bin', 'python');

async function findPython(minor: number): Promise<{ python: string; version: string } | null> {
  const named = process.env.MARTINGALE_PYTHON;
  const onPath = ['python3', 'python3.13', 'python3.12', 'python3.11', 'python'];
  const candidates = named ? [named] : [...onPath, ...(await pythonsOfPyenv())];
  for (const python of candidates) {
    const program = 'import sys; print(sys.version_info[0], sys.version_info[1], sys.executable)';
    const answer = await run(python, ['-c', program], { timeout: 20_000 }).catch(() => null);
    const [, major, own, executable] = /^(\d+) (\d+) (.+)$/m.exec(answer?.stdout ?? '') ?? [];
    if (major === '3' && Number(own) >= minor && executable !== undefined)
      return { python: executable, version: `${major}.${own}` };
  }
  return null;
}

/** The interpreters that pyenv has installed, the newest first; only one of them is on the path. */
async function pythonsOfPyenv(): Promise<string[]> {
  const versions = join(process.env.PYENV_ROOT ?? join(homedir(), '.pyenv'), 'versions');
  const names = await readdir(versions).catch(() => []);
  const sorted = names.sort((a, b) => b.localeCompare(a, 'en', { numeric: true }));
  return sorted.map((name) => join(versions, name, 'bin', 'python'));
}
