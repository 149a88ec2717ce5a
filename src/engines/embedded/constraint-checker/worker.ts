/** Compiles the constraints of requests in a thread of its own: a grammar may take longer than others can wait. */
import { parentPort } from 'node:worker_threads';
import type { Constraint } from '../../engine.ts';
import { ConversationCodec } from '../conversation-codec.ts';
import { toFailure } from '../worker-failure.ts';
import type { WorkerFailure } from '../worker-messages.ts';

/** What the thread says of a constraint: null where nothing is wrong with it. */
export type CheckReport = 'ready' | WorkerFailure | null;

const port = parentPort;
if (!port) throw new Error('this module runs in a worker thread');
const codec = await ConversationCodec.create();
const report = (message: CheckReport) => port.postMessage(message);

port.on('message', (constraint: Constraint) => {
  codec.compile(constraint).then(
    () => report(null),
    (error: unknown) => report(toFailure(error)),
  );
});
report('ready');
