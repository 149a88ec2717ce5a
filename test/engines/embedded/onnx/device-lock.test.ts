import { threadId } from 'node:worker_threads';
import { expect, it } from 'vitest';
import { DeviceLock } from '../../../../src/engines/embedded/onnx/device-lock.ts';
import { NativeGate } from '../../../../src/engines/embedded/onnx/native-gate.ts';

const free = -1;

it('lets one call of a thread in at a time, also after one that failed', async () => {
  const [lock, gate] = [new DeviceLock(), new NativeGate()];
  const holder = new Int32Array(lock.shared);
  let inside = 0;
  const call = async () => {
    expect(inside++).toBe(0);
    expect(holder[0]).toBe(threadId);
    expect(gate.occupied).toBe(true);
    await new Promise(setImmediate);
    inside--;
  };
  const failed = lock.pass(gate, async () => {
    await call();
    throw new Error('no memory');
  });
  await Promise.all([
    expect(failed).rejects.toThrow('no memory'),
    lock.pass(gate, call),
    lock.pass(gate, call),
  ]);
  expect(holder[0]).toBe(free);
});

it('is free again when the thread that had it has died, and only then', async () => {
  const lock = new DeviceLock();
  const holder = new Int32Array(lock.shared);
  const dead = threadId + 1;
  holder[0] = dead;
  lock.release(dead + 1);
  expect(holder[0]).toBe(dead);
  lock.release(dead);
  expect(await lock.pass(new NativeGate(), async () => 'passed')).toBe('passed');
});
