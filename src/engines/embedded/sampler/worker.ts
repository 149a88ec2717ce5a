import { parentPort, workerData } from 'node:worker_threads';
import { ConversationCodec } from '../conversation-codec.ts';
import { loadProcessors } from '../logits-processors/index.ts';
import { loadRuntime } from '../runtime.ts';
import { toFailure } from '../worker-failure.ts';
import type { SamplerReport, SamplerRequest, WorkerReady, WorkerSettings } from '../worker-messages.ts';
import { emptyReport, Sampler } from './sampler.ts';

const port = parentPort;
if (!port) throw new Error('this module runs in a worker thread');
const settings = workerData as WorkerSettings;
const runtime = await loadRuntime(settings.runtime, settings.threads);
const sampler = new Sampler(
  runtime,
  settings,
  await ConversationCodec.create(await loadProcessors(settings.logitsProcessors)),
);
let running = false;

port.on('message', (message: SamplerRequest) => {
  if (message.type === 'cancel') return sampler.cancel(message.id);
  if (message.type === 'drop') return void sampler.drop(message.weights);
  sampler.add(message.id, message).then(run, (error: unknown) => {
    send({ ...emptyReport(), failed: [{ id: message.id, failure: toFailure(error) }] });
  });
});
port.postMessage({ type: 'ready', runtime: runtime.name } satisfies WorkerReady);

/** Steps as long as there is work, letting messages in between steps. */
async function run(): Promise<void> {
  if (running) return;
  running = true;
  while (sampler.busy) {
    const report = await sampler.step();
    if (Object.values(report).some(({ length }) => length > 0)) send(report);
    await new Promise(setImmediate);
  }
  running = false;
}

function send(report: SamplerReport): void {
  port?.postMessage(report);
}
