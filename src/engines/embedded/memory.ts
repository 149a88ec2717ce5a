import { totalmem } from 'node:os';

/** Bytes that this process may use: the machine's memory, or less if its container has a limit. */
export function usableMemory(): number {
  // 0 when there is no limit, and more than any machine has when a control group says "unlimited".
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem();
}

/** Heap of a thread: a quarter of the memory, at least 512 MiB and at most 4 GiB. */
export const defaultHeapBytes = (): number =>
  Math.floor(Math.min(4 * 2 ** 30, Math.max(512 * 2 ** 20, usableMemory() / 4)));

/** Keys and values of ended sequences: 256 MiB, with checkpoints an eighth of the memory if that is more. */
export const defaultPrefixBytes = (hasCheckpoints: boolean): number =>
  Math.max(256 * 2 ** 20, hasCheckpoints ? Math.floor(usableMemory() / 8) : 0);

/** The part of them that checkpoints have: the samplers of the tiny models and of checkpoints share it equally. */
export const checkpointPrefixBytes = (all: number): number => Math.floor(all / 2);

/** What training a checkpoint may use beside its weights: half of the memory. */
export const defaultTrainingBytes = (): number => Math.floor(usableMemory() / 2);
