import { parentPort, workerData } from 'node:worker_threads';
import { context, propagation, ROOT_CONTEXT } from '@opentelemetry/api';
import { type Client, createClient } from '../../client/index.ts';
import { MartingaleError } from '../../contract/index.ts';
import type { Environment } from '../../environment/index.ts';
import { ModelHandle } from '../../model/index.ts';
import { toTrajectoryRecord } from '../../trajectory/index.ts';
import { type Rollout, toFailure, withoutReward } from '../rollout.ts';
import { runRollout } from '../run-rollout.ts';
import { RemoteBudgets } from './call-budgets.ts';
import type { FromThread, SentModel, SentRollout, ThreadStart, ToThread } from './messages.ts';

const port = parentPort;
if (!port) throw new TypeError('This module is the inside of a worker thread of workerThreads().');
const post = (message: FromThread) => port.postMessage(message);

const budgets = new RemoteBudgets(post);
const clients = new Map<string, Client>();
const running = new Map<number, AbortController>();

/** Rollouts that call the same service share one client, and so one connection pool. */
function clientOf(options: SentModel['client']): Client {
  const key = JSON.stringify(options);
  const client = clients.get(key) ?? createClient(options);
  clients.set(key, client);
  return client;
}

function openModel({ client, name, id, settings, budget }: SentModel): ModelHandle {
  return new ModelHandle({
    client: clientOf(client),
    name,
    id,
    settings: budget === null ? settings : { ...settings, budget: budgets.budget(budget) },
  });
}

async function run(environment: Environment, message: Extract<ToThread, { type: 'run' }>): Promise<void> {
  const { id, task, trace } = message;
  const controller = new AbortController();
  running.set(id, controller);
  const model = openModel(message.model);
  const players = Object.fromEntries(
    Object.entries(message.players).map(([seat, player]) => [
      seat,
      { ...player, model: openModel(player.model) },
    ]),
  );
  const rollout = await context.with(propagation.extract(ROOT_CONTEXT, trace), () =>
    runRollout({ ...task, environment, model, players, signal: controller.signal }),
  );
  running.delete(id);
  send(id, rollout);
}

/** If a result cannot be cloned, the rollout fails, not the thread. */
function send(id: number, rollout: Rollout): void {
  try {
    post({ type: 'ended', id, rollout: toSent(rollout) });
  } catch (error) {
    const message =
      "The rollout's outcome or trajectory cannot be copied from its worker thread " +
      `(${toFailure(error).message}). Return plain data: no functions, no open handles.`;
    const failure = { code: 'outcome_not_cloneable', message };
    const failed = toSent(withoutReward(rollout, { status: 'failed', failure }));
    const { trajectory, seats } = asPlain({ trajectory: failed.trajectory, seats: failed.seats });
    post({ type: 'ended', id, rollout: { ...failed, trajectory, ...(seats ? { seats } : {}) } });
  }
}

function toSent({ trajectory, seats, ...rollout }: Rollout): SentRollout {
  const sent = seats?.map((seat) => ({ ...seat, trajectory: toTrajectoryRecord(seat.trajectory) }));
  return { ...rollout, trajectory: toTrajectoryRecord(trajectory), ...(sent ? { seats: sent } : {}) };
}

function asPlain<Value>(value: Value): Value {
  return JSON.parse(JSON.stringify(value));
}

function isEnvironment(value: unknown): value is Environment {
  return typeof value === 'object' && value !== null && 'open' in value && 'rewardNames' in value;
}

async function load({ environment: module, exportName }: ThreadStart): Promise<Environment> {
  const exported: Record<string, unknown> = await import(module);
  const environment = exported[exportName];
  if (isEnvironment(environment)) return environment;
  throw new MartingaleError(
    'environment_not_exported',
    `${module} exports no environment as "${exportName}". Export an environment created by defineEnvironment(), or name the export ` +
      'with `exportName`.',
  );
}

try {
  const environment = await load(workerData);
  port.on('message', (message: ToThread) => {
    if (message.type === 'run') void run(environment, message);
    else if (message.type === 'admitted') budgets.admit(message.call);
    else if (message.type === 'refused') budgets.refuse(message.call, message.failure);
    else running.get(message.id)?.abort(new MartingaleError(message.reason.code, message.reason.message));
  });
  post({ type: 'ready', environment: environment.name });
} catch (error) {
  post({ type: 'unusable', failure: toFailure(error) });
}
