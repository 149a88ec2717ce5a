import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const requirements = fileURLToPath(new URL('requirements.txt', import.meta.url));
const cache = fileURLToPath(new URL('../../../node_modules/.cache/martingale-art', import.meta.url));

/** Python versions that `requirements.txt` supports, the usual one first. A pyenv shim may have no Python behind it. */
const pythons = () => [
  ...['python3.12', 'python3.11', 'python3.13', 'python3'],
  ...['3.12', '3.11', '3.13'].flatMap((version) =>
    globSync(join(process.env.PYENV_ROOT ?? join(homedir(), '.pyenv'), `versions/${version}.*/bin/python3`)),
  ),
];

async function findPython(): Promise<string | null> {
  const check = 'import sys, venv, ensurepip; assert (3, 11) <= sys.version_info < (3, 14)';
  for (const python of pythons()) {
    const isFit = await run(python, ['-c', check]).then(
      () => true,
      () => false,
    );
    if (isFit) return python;
  }
  return null;
}

export type PythonEnvironment = { python: string } | { missing: string };

/** A Python with ART at the pinned versions, created once and cached in `node_modules/.cache`. */
export async function artEnvironment(): Promise<PythonEnvironment> {
  const found = await findPython();
  if (found === null) return { missing: 'there is no Python 3.11 to 3.13 with venv' };
  const { stdout: version } = await run(found, ['--version']);
  const pins = readFileSync(requirements);
  const name = createHash('sha256').update(pins).update(version).digest('hex').slice(0, 16);
  const folder = join(cache, name);
  const python = join(folder, 'bin', 'python');
  const ready = join(folder, 'ready');
  if (existsSync(ready)) return { python };
  try {
    // Has other versions, or is incomplete.
    await rm(cache, { recursive: true, force: true });
    await mkdir(cache, { recursive: true });
    await run(found, ['-m', 'venv', folder]);
    const pinned = ['--no-deps', '--only-binary=:all:', '--no-compile', '--disable-pip-version-check'];
    const install = ['-m', 'pip', 'install', '--quiet', ...pinned, '-r', requirements];
    await run(python, install, { timeout: 600_000 });
    await writeFile(ready, '');
    return { python };
  } catch (error) {
    const reason = String(error).trim().split('\n').at(-1);
    return { missing: `its packages could not be installed (${reason})` };
  }
}
