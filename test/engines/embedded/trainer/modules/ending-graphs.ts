import { startWorker } from '../../../../../src/engines/embedded/threads/worker.ts';
import type { GraphCall } from '../../../../../src/engines/embedded/threads/worker-messages.ts';

/** A thread that ends when it is to run a graph. */
await startWorker<GraphCall>(async () => ({
  async call({ port }) {
    port.on('message', () => process.exit(3));
    return null;
  },
  cancel: () => undefined,
  close: async () => undefined,
}));
