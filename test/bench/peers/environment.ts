import { readFileSync } from 'node:fs';
import { createPythonEnvironment } from '../../conformance/python-environment.ts';

const requirements = readFileSync(new URL('requirements.txt', import.meta.url), 'utf8')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'));

/** Path of a Python with PyTorch and TRL. The first call installs it and says so on standard error. */
export async function peersPython(): Promise<string> {
  const { python } = await createPythonEnvironment({
    requirements,
    pipArguments: ['--no-deps', '--no-cache-dir', '--only-binary=:all:'],
    minor: 11,
    installTimeoutMs: 3_600_000,
    onInstall: (folder) =>
      console.error(
        `Installing PyTorch and TRL, once: 2.6 GB to download, 4.6 GB in ${folder} on Linux, where the wheel needs its CUDA libraries even without a GPU. This takes two to ten minutes.`,
      ),
  });
  return python;
}
