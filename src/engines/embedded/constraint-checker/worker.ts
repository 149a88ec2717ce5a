/** Compiles the constraints of requests in a thread of its own: a grammar may take longer than others can wait. */
import { parentPort } from 'node:worker_threads';
import type { Constraint } from '../../engine.ts';
import { ConversationCodec } from '../conversation-codec.ts';
import type { ConstraintPlan } from '../grammar/index.ts';
import { toFailure } from '../worker-failure.ts';
import type { WorkerFailure } from '../worker-messages.ts';

/** What the thread says: that it has started, and then of each constraint what it has become or what is wrong with it. */
export type CheckReport =
  | { type: 'ready' }
  | { type: 'plan'; plan: ConstraintPlan }
  | { type: 'refused'; failure: WorkerFailure };

const port = parentPort;
if (!port) throw new Error('this module runs in a worker thread');
const codec = await ConversationCodec.create();
const report = (message: CheckReport) => port.postMessage(message);

port.on('message', (constraint: Constraint) => {
  codec.plan(constraint).then(
    (plan) => report({ type: 'plan', plan }),
    (error: unknown) => report({ type: 'refused', failure: toFailure(error) }),
  );
});
report({ type: 'ready' });
