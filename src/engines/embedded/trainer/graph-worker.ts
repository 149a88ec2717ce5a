import { startWorker } from '../threads/worker.ts';
import type { GraphCall } from '../threads/worker-messages.ts';
import { GraphServer } from './graph-port.ts';
import { TrainingSessions } from './graph-runner.ts';

await startWorker<GraphCall>(async ({ runtime }) => {
  const server = new GraphServer(new TrainingSessions(runtime));
  return {
    async call({ port }) {
      server.serve(port);
      return null;
    },
    cancel: () => undefined,
    close: () => server.close(),
  };
});
