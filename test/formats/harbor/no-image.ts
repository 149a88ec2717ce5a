import type { SandboxSettings } from 'martingale/environments';

/** What a sandbox without an image is told of it. */
export const noImage: SandboxSettings['image'] = {
  name: null,
  folder: '/nowhere',
  buildTimeoutMs: 1000,
  cpus: null,
  memoryMb: null,
  storageMb: null,
};
