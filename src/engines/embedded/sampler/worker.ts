import { inTimeSlices } from '../../../util/time-slices.ts';
import { BaseModels } from '../base-models.ts';
import { ConversationCodecs } from '../conversation-codec.ts';
import { startWorker } from '../threads/worker.ts';
import type { EncodeCall, SamplerCall } from '../threads/worker-messages.ts';
import { Sampler } from './sampler.ts';

await startWorker<SamplerCall>(async ({ checkpointRuntime, settings, send }) => {
  const models = new BaseModels(settings.checkpoints);
  const codecs = await ConversationCodecs.load(models, settings.logitsProcessors);
  const sampler = new Sampler(checkpointRuntime, settings, {
    models,
    codecOf: (baseModel) => codecs.of(baseModel),
  });
  let steps: Promise<void> | null = null;

  /** Steps while there is work, and handles messages between steps. */
  async function run(): Promise<void> {
    try {
      while (sampler.busy) {
        const answers = await sampler.step();
        if (answers.length > 0) send(answers);
        await new Promise(setImmediate);
      }
    } catch (error) {
      // The error does not belong to one request, so it ends the thread, which fails all calls in flight.
      setImmediate(() => {
        throw error;
      });
    } finally {
      steps = null;
    }
  }

  async function encode({ baseModel, replies }: EncodeCall): Promise<number[][]> {
    const codec = codecs.of(baseModel);
    const encoded: number[][] = [];
    for await (const [, reply] of inTimeSlices(replies)) encoded.push(await codec.encodeReply(reply));
    return encoded;
  }

  return {
    async call(call, id) {
      if (call.type === 'encode') return encode(call);
      if (call.type === 'load' || call.type === 'drop') {
        await sampler[call.type](call.weights);
        return null;
      }
      await sampler.add(id, call);
      steps ??= run();
      return undefined;
    },
    cancel: (id) => sampler.cancel(id),
    async close() {
      sampler.cancelAll();
      await steps;
      await sampler.close();
    },
  };
});
