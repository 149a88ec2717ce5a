import { parentPort, workerData } from 'node:worker_threads';
import { NativeGate } from '../../../../src/engines/embedded/threads/native-gate.ts';
import { beat } from '../../../../src/engines/embedded/threads/watchdog.ts';

const gate = new NativeGate(workerData.gate);
beat(workerData.watchdog);
const never = new Int32Array(new SharedArrayBuffer(4));

/** A thread that follows the test's messages and ignores `close`. */
parentPort?.on('message', (request: { type: string }) => {
  if (request.type === 'echo') parentPort?.postMessage('echo');
  if (request.type === 'fail') throw new Error('out of luck');
  if (request.type === 'hang') for (;;);
  // Simulates a native call that blocks the thread three times longer than allowed.
  if (request.type === 'run')
    void gate
      .pass(async () => Atomics.wait(never, 0, 0, 3 * workerData.settings.threadTimeoutMs))
      .then(() => parentPort?.postMessage('done'));
});
parentPort?.postMessage({ type: 'ready', runtime: 'none' });
