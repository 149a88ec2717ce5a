import { totalmem } from 'node:os';
import { afterEach, expect, it, vi } from 'vitest';
import {
  defaultHeapBytes,
  defaultPrefixBytes,
  defaultTrainingBytes,
  usableMemory,
} from '../../../src/engines/embedded/memory.ts';

afterEach(() => vi.restoreAllMocks());

const limitTo = (bytes: number) => vi.spyOn(process, 'constrainedMemory').mockReturnValue(bytes);

it('defaults follow the limit of a container', () => {
  limitTo(2 ** 30);
  expect(usableMemory()).toBe(2 ** 30);
  expect(defaultTrainingBytes()).toBe(2 ** 29);
  expect(defaultHeapBytes()).toBe(2 ** 29);
  expect(defaultPrefixBytes(true)).toBe(2 ** 28);
});

it.each([0, 2 ** 64, 2 ** 60])('a limit of %d is none', (limit) => {
  limitTo(limit);
  expect(usableMemory()).toBe(totalmem());
});
