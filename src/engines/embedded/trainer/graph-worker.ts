import { BaseModels } from '../base-models.ts';
import { startWorker } from '../threads/worker.ts';
import type { GraphCall } from '../threads/worker-messages.ts';
import { GraphsOfModels } from './graphs-of-models.ts';
import { RunnerServer } from './remote-runner.ts';

await startWorker<GraphCall>(async ({ runtime, checkpointRuntime, settings }) => {
  const models = new BaseModels(settings.checkpoints);
  const graphs = new GraphsOfModels(models, { cpu: runtime, device: checkpointRuntime });
  const server = new RunnerServer();
  return {
    async call({ port, baseModel, beside }) {
      server.serve(port, await graphs.hold(baseModel, { beside }));
      return null;
    },
    cancel: () => undefined,
    async close() {
      await server.close();
      await graphs.close();
    },
  };
});
