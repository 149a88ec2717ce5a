import { parentPort, workerData } from 'node:worker_threads';
import { NativeGate } from '../../../../../src/engines/embedded/onnx/native-gate.ts';
import { beat } from '../../../../../src/engines/embedded/threads/watchdog.ts';
import type { WorkerRequest } from '../../../../../src/engines/embedded/threads/worker-messages.ts';

const gate = new NativeGate(workerData.gate);
beat(workerData.watchdog);
const cancelled: number[] = [];
const never = new Int32Array(new SharedArrayBuffer(4));

/** A thread that does what the test's calls say and ignores `close`. */
parentPort?.on('message', (requests: WorkerRequest<string>[]) => requests.forEach(handle));

function handle(request: WorkerRequest<string>): void {
  if (request.type === 'cancel') cancelled.push(request.id);
  if (request.type !== 'call') return;
  const { id, call } = request;
  const answer = (result: unknown) => parentPort?.postMessage([{ id, result }]);
  if (call === 'echo') answer('echo');
  if (call === 'cancelled') answer(cancelled);
  if (call === 'fail') throw new Error('out of luck');
  if (call === 'hang') for (;;);
  if (call === 'sleep') Atomics.wait(never, 0, 0);
  if (call === 'compute') answer(compute(0.6 * workerData.settings.threadTimeoutMs));
  // Simulates a native call that blocks the thread three times longer than allowed.
  if (call === 'run')
    void gate
      .pass(async () => Atomics.wait(never, 0, 0, 3 * workerData.settings.threadTimeoutMs))
      .then(() => answer('done'));
}

/** Uses a processor for this time, however long that takes. */
function compute(milliseconds: number): string {
  const before = process.threadCpuUsage();
  for (;;) {
    const { user, system } = process.threadCpuUsage(before);
    if (user + system >= milliseconds * 1000) return 'computed';
  }
}

parentPort?.postMessage({ runtime: 'none' });
