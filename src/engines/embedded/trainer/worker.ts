import type { TrainingBatch } from '../../engine.ts';
import { BaseModels } from '../base-models.ts';
import { ConversationCodecs } from '../conversation-codec.ts';
import { testedAdapter } from '../self-test/random-model.ts';
import { selfTest } from '../self-test/self-test.ts';
import { startWorker } from '../threads/worker.ts';
import type { TrainerCall } from '../threads/worker-messages.ts';
import { RemoteRunner } from './remote-runner.ts';
import { Trainer } from './trainer.ts';

await startWorker<TrainerCall>(async ({ runtime, checkpointRuntime, settings }) => {
  const models = new BaseModels(settings.checkpoints);
  const codecs = await ConversationCodecs.load(models, settings.logitsProcessors);
  const trainer = new Trainer(runtime, {
    checkpointRuntime,
    models,
    codecOf: (baseModel) => codecs.of(baseModel),
    trainingBytes: settings.trainingBytes,
  });
  /** The last call. Calls run one after another, in order of arrival. */
  let last: Promise<unknown> = Promise.resolve();
  const closing = new AbortController();
  /** The number of the last job. */
  let job = -1;
  /** Datums of the batch whose step has not arrived yet. */
  let datums: TrainingBatch['datums'] = [];

  async function answer(call: TrainerCall): Promise<unknown> {
    switch (call.type) {
      case 'self-test': {
        const model = models.find(call.baseModel);
        return model.isSmall
          ? undefined
          : selfTest(checkpointRuntime, { ...model, lora: testedAdapter(model) }, closing.signal);
      }
      case 'begin':
        job = call.job;
        datums = [];
        return trainer.begin(
          call.from,
          call.graphs.map((port) => new RemoteRunner(port)),
        );
      case 'teacher':
        return trainer.teach(
          call.baseModel,
          call.graphs.map((port) => new RemoteRunner(port)),
        );
      case 'datums':
        for (const datum of call.datums) datums.push(datum);
        return;
      case 'step':
        return trainer.step({ ...call.batch, datums: datums.splice(0) }, call.scratchFile);
      case 'save':
        return trainer.save(call.folder);
      case 'abandon':
        return call.job === job ? trainer.abandon() : undefined;
      case 'drop':
        return trainer.drop(call.weights);
    }
  }

  return {
    call(call) {
      const answered = last.then(async () =>
        closing.signal.aborted ? undefined : ((await answer(call)) ?? null),
      );
      last = answered.catch(() => undefined);
      return answered;
    },
    cancel: () => trainer.cancel(),
    async close() {
      closing.abort();
      trainer.cancel();
      await last;
      await trainer.close();
    },
  };
});
