import { parentPort, workerData } from 'node:worker_threads';
import { MartingaleError } from '../../contract/index.ts';
import { toFailure } from '../rollout.ts';
import { RemoteBudgets } from '../sent/call-budgets.ts';
import { loadEnvironment } from '../sent/load-environment.ts';
import { SentRollouts, sendRollout } from '../sent/run-sent.ts';
import type { FromThread, ThreadStart, ToThread } from './thread-messages.ts';

const port = parentPort;
if (!port) throw new TypeError('This module is the inside of a worker thread of workerThreads().');
const post = (message: FromThread) => port.postMessage(message);

const budgets = new RemoteBudgets(post);
const running = new Map<number, AbortController>();

async function run(rollouts: SentRollouts, { id, ...start }: Extract<ToThread, { type: 'run' }>) {
  const controller = new AbortController();
  running.set(id, controller);
  const ended = await rollouts.run(start, controller.signal);
  running.delete(id);
  sendRollout(ended, (rollout) => post({ type: 'ended', id, rollout }));
}

try {
  const { environment: module, exportName }: ThreadStart = workerData;
  const environment = await loadEnvironment(module, exportName);
  const rollouts = new SentRollouts(environment, budgets);
  port.on('message', (message: ToThread) => {
    if (message.type === 'run') void run(rollouts, message);
    else if (message.type === 'admitted') budgets.admit(message.call);
    else if (message.type === 'refused') budgets.refuse(message.call, message.failure);
    else running.get(message.id)?.abort(new MartingaleError(message.reason.code, message.reason.message));
  });
  post({ type: 'ready', environment: environment.name });
} catch (error) {
  post({ type: 'unusable', failure: toFailure(error) });
}
