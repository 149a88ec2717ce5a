import { parentPort, workerData } from 'node:worker_threads';
import { ConversationCodec } from '../conversation-codec.ts';
import { loadProcessors } from '../extensions/logits-processors.ts';
import { loadRuntime } from '../runtime.ts';
import { NativeGate } from '../threads/native-gate.ts';
import { beat } from '../threads/watchdog.ts';
import type { SamplerReport, SamplerRequest, WorkerReady, WorkerStart } from '../threads/worker-messages.ts';
import { toFailure } from '../threads/worker-messages.ts';
import { emptyReport, Sampler } from './sampler.ts';

const port = parentPort;
if (!port) throw new Error('this module runs in a worker thread');
const { settings, gate, watchdog } = workerData as WorkerStart;
beat(watchdog);
const runtime = await loadRuntime(settings.runtime, settings.threads, new NativeGate(gate));
const sampler = new Sampler(
  runtime,
  settings,
  await ConversationCodec.create(await loadProcessors(settings.logitsProcessors)),
);
let running = false;
let steps: Promise<void> = Promise.resolve();

port.on('message', (message: SamplerRequest) => {
  switch (message.type) {
    case 'cancel':
      return sampler.cancel(message.id);
    case 'drop':
      return sampler.drop(message.weights);
    case 'close':
      return void close();
    default:
      sampler.add(message.id, message).then(wake, (error: unknown) => {
        send({ ...emptyReport(), failed: [{ id: message.id, failure: toFailure(error) }] });
      });
  }
});
port.postMessage({ type: 'ready', runtime: runtime.name } satisfies WorkerReady);

function wake(): void {
  if (running) return;
  running = true;
  steps = run();
}

/** Steps while there is work, and handles messages between steps. */
async function run(): Promise<void> {
  try {
    while (sampler.busy) {
      const report = await sampler.step();
      if (Object.values(report).some(({ length }) => length > 0)) send(report);
      await new Promise(setImmediate);
    }
  } catch (error) {
    die(error);
  } finally {
    running = false;
  }
}

async function close(): Promise<void> {
  try {
    sampler.cancelAll();
    await steps;
    await sampler.close();
  } finally {
    process.exit();
  }
}

/** Ends the thread, so that all calls in flight fail: the error does not belong to one request. */
function die(error: unknown): void {
  setImmediate(() => {
    throw error;
  });
}

function send(report: SamplerReport): void {
  port?.postMessage(report);
}
