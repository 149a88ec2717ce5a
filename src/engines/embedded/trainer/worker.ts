import { parentPort, workerData } from 'node:worker_threads';
import type { Reply } from '../../../language/constraint/constraint.ts';
import { inTimeSlices } from '../../../util/time-slices.ts';
import type { TrainingBatch } from '../../engine.ts';
import { ConversationCodec } from '../conversation-codec.ts';
import { loadProcessors } from '../extensions/logits-processors.ts';
import { loadRuntime } from '../runtime.ts';
import { NativeGate } from '../threads/native-gate.ts';
import { beat } from '../threads/watchdog.ts';
import type {
  TrainerCall,
  TrainerReply,
  TrainerRequest,
  WorkerReady,
  WorkerStart,
} from '../threads/worker-messages.ts';
import { toFailure } from '../threads/worker-messages.ts';
import { Trainer } from './trainer.ts';

const port = parentPort;
if (!port) throw new Error('this module runs in a worker thread');
const { settings, gate, watchdog } = workerData as WorkerStart;
beat(watchdog);
const codec = await ConversationCodec.create(await loadProcessors(settings.logitsProcessors));
const runtime = await loadRuntime(settings.runtime, settings.threads, new NativeGate(gate));
const trainer = new Trainer(runtime, codec);
/** The last call. Calls run one after another, in order of arrival. */
let last: Promise<void> = Promise.resolve();
let closing = false;
/** Datums of the batch whose step has not arrived yet. */
let waiting: TrainingBatch['datums'] = [];

port.on('message', (message: TrainerRequest) => {
  if (message.type === 'cancel') return trainer.cancel();
  if (message.type === 'close') return void close();
  last = last.then(async () => {
    if (closing) return;
    try {
      reply({ id: message.id, result: await answer(message) });
    } catch (error) {
      reply({ id: message.id, failure: toFailure(error) });
    }
  });
});
port.postMessage({ type: 'ready', runtime: runtime.name } satisfies WorkerReady);

async function answer(message: TrainerCall): Promise<unknown> {
  switch (message.type) {
    case 'begin':
      waiting = [];
      return trainer.begin(message.from);
    case 'datums':
      for (const datum of message.datums) waiting.push(datum);
      return null;
    case 'step':
      return trainer.step({ ...message.batch, datums: [...waiting.splice(0), ...message.batch.datums] });
    case 'save':
      return trainer.save(message.folder);
    case 'abandon':
      return trainer.abandon();
    case 'encode':
      return encode(message.replies);
  }
}

async function encode(replies: readonly Reply[]): Promise<number[][]> {
  const encoded: number[][] = [];
  for await (const [, reply] of inTimeSlices(replies)) encoded.push(await codec.encodeReply(reply));
  return encoded;
}

async function close(): Promise<void> {
  closing = true;
  try {
    trainer.cancel();
    await last;
    await trainer.close();
  } finally {
    process.exit();
  }
}

function reply(message: TrainerReply): void {
  port?.postMessage(message);
}
