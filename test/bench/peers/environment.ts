import { readFileSync } from 'node:fs';
import { createPythonEnvironment } from '../../conformance/python-environment.ts';

interface Peers {
  /** Lists of packages, each pinned with all that it needs. */
  lists: readonly string[];
  /** Packages that are on none of the lists. */
  others?: readonly string[];
  /** What is told before the installation. */
  told: string;
}

const peers = {
  torch: {
    lists: ['requirements.txt'],
    told: 'PyTorch, transformers, PEFT and TRL, once: 2.6 GB to download, 4.6 GB on Linux, where the wheel needs its CUDA libraries even without a GPU. This takes two to ten minutes',
  },
  art: {
    lists: ['../../conformance/art/requirements.txt'],
    // The transport of the openai client for many connections.
    others: ['httpx-aiohttp==0.2.0'],
    told: 'ART, once: about 700 MB',
  },
  verifiers: { lists: ['verifiers-requirements.txt'], told: 'verifiers, once: about 700 MB' },
} satisfies Record<string, Peers>;

/**
 * Path of a Python with the packages of a peer. The first call installs them and says so on standard error. Throws where
 * there is no Python 3.11 or the packages cannot be fetched. `MARTINGALE_PEER_PYTHON` names a Python that has those of
 * `torch` already.
 */
export async function peerPython(name: keyof typeof peers): Promise<string> {
  const installed = process.env.MARTINGALE_PEER_PYTHON;
  if (name === 'torch' && installed) return installed;
  const { lists, others = [], told }: Peers = peers[name];
  const { python } = await createPythonEnvironment({
    requirements: [
      ...lists.flatMap((list) => readFileSync(new URL(list, import.meta.url), 'utf8').split('\n')),
      ...others,
    ].filter((line) => line !== '' && !line.startsWith('#')),
    pipArguments: ['--no-deps', '--no-cache-dir', '--only-binary=:all:'],
    minor: 11,
    installTimeoutMs: 3_600_000,
    onInstall: (folder) => console.error(`Installing ${told}, in ${folder}.`),
  });
  return python;
}
