import { parentPort } from 'node:worker_threads';

/** A thread that does as it is told, and not what `close` asks of it. */
parentPort?.on('message', (request: { type: string }) => {
  if (request.type === 'echo') parentPort?.postMessage('echo');
  if (request.type === 'fail') throw new Error('out of luck');
  if (request.type === 'hang') for (;;);
});
parentPort?.postMessage({ type: 'ready', runtime: 'none' });
