import { parentPort, workerData } from 'node:worker_threads';
import { NativeGate } from '../../../../src/engines/embedded/threads/native-gate.ts';
import { beat } from '../../../../src/engines/embedded/threads/watchdog.ts';

const gate = new NativeGate(workerData.gate);
beat(workerData.watchdog);
const never = new Int32Array(new SharedArrayBuffer(4));

/** A thread that does as it is told, and not what `close` asks of it. */
parentPort?.on('message', (request: { type: string }) => {
  if (request.type === 'echo') parentPort?.postMessage('echo');
  if (request.type === 'fail') throw new Error('out of luck');
  if (request.type === 'hang') for (;;);
  // A run of the native runtime: the thread stands still in it, for three times as long as it may.
  if (request.type === 'run')
    void gate
      .pass(async () => Atomics.wait(never, 0, 0, 3 * workerData.settings.threadTimeoutMs))
      .then(() => parentPort?.postMessage('done'));
});
parentPort?.postMessage({ type: 'ready', runtime: 'none' });
