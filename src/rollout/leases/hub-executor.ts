import { setTimeout as sleep } from 'node:timers/promises';
import { serialize } from 'node:v8';
import type { z } from 'zod';
import type { Listening } from '../../util/listen.ts';
import { isLoopback } from '../../util/server-access.ts';
import { type RolloutExecutor, RolloutQueue } from '../executor.ts';
import type { Rollout, RolloutFailure } from '../rollout.ts';
import { inRolloutSpan } from '../rollout-span.ts';
import { type RunRolloutOptions, runRollout } from '../run-rollout.ts';
import type { BudgetNumbers } from '../sent/call-budgets.ts';
import { receiveRollout } from '../sent/received.ts';
import {
  abortReasonOf,
  describeModels,
  lostRollout,
  notCloneable,
  type SentModel,
  type SentModels,
  timeOf,
  toRollout,
  toSentStart,
} from '../sent/sent-rollout.ts';
import type { Lease } from './lease.ts';
import type { LeaseHub } from './lease-hub.ts';
import type { LeaseStats } from './worker-event.ts';

interface HubExecutorOptions {
  hub: LeaseHub;
  budgets: BudgetNumbers;
  /** Name of the environment that all workers have loaded. */
  environment: string;
  reach: Reach;
  apiKey: string;
  listening: Listening;
  /** Called when nobody can join any more. */
  onClosed: () => Promise<void>;
}

/** How workers reach the service. */
interface Reach {
  serviceUrl: string | undefined;
  /** Whether all workers are on this machine. */
  isLocal: boolean;
}

type Task<Schema extends z.ZodType, Outcome> = RunRolloutOptions<Schema, Outcome>;

/** How long workers have to hear that the program needs them no more, in milliseconds. */
const farewellMs = 2000;

/** Gives rollouts to the workers of a hub. */
export class HubExecutor implements RolloutExecutor {
  readonly url: string;
  readonly apiKey: string;
  readonly #options: HubExecutorOptions;
  /** Ends the rollouts of a closed executor. It limits nothing: workers decide how many are in flight. */
  readonly #queue = new RolloutQueue(Number.POSITIVE_INFINITY);
  #closing: Promise<void> | undefined;

  constructor(options: HubExecutorOptions) {
    this.#options = options;
    this.url = options.listening.url;
    this.apiKey = options.apiKey;
  }

  stats(): LeaseStats {
    return this.#options.hub.stats();
  }

  run<Schema extends z.ZodType, Outcome>(
    task: Task<Schema, Outcome>,
    { order = Number.POSITIVE_INFINITY }: { order?: number } = {},
  ): Promise<Rollout<Outcome>> {
    return this.#queue.run({ signal: task.signal, order }, (signal) =>
      signal.aborted ? runRollout({ ...task, signal }) : this.#onWorker({ ...task, signal }, order),
    );
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const { hub, listening, onClosed } = this.#options;
    await this.#queue.close();
    hub.close();
    for (let waited = 0; hub.hasWorkers && waited < farewellMs; waited += 20) await sleep(20);
    await listening.close();
    await onClosed();
  }

  async #onWorker<Schema extends z.ZodType, Outcome>(
    task: Task<Schema, Outcome>,
    order: number,
  ): Promise<Rollout<Outcome>> {
    const { hub } = this.#options;
    const described = this.#describe(task);
    if ('failure' in described)
      return inRolloutSpan(task, async () => lostRollout(task, described.failure, performance.now()));
    const { signal, timeoutMs } = task;
    const { inAllMs, afterAbortMs } = timeOf(task);
    const receive = (result: unknown) => receiveRollout(result, task);
    const lease = hub.open({ order, inAllMs, afterAbortMs, overdue: overdue(timeoutMs), receive });
    const onAbort = () => hub.abort(lease, abortReasonOf(signal));
    signal?.addEventListener('abort', onAbort, { once: true });
    try {
      await lease.given;
      // The span begins when a worker has the rollout, as in this process it begins with its slot.
      return await inRolloutSpan(task, () => this.#followed(task, lease, described.sent));
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
  }

  async #followed<Schema extends z.ZodType, Outcome>(
    task: Task<Schema, Outcome>,
    lease: Lease,
    models: SentModels,
  ): Promise<Rollout<Outcome>> {
    const { hub } = this.#options;
    const startedAt = performance.now();
    try {
      hub.begin(lease, serialize(toSentStart(task, models)));
    } catch (error) {
      hub.end(lease, notCloneable(error));
    }
    const result = await lease.ended;
    return result.type === 'ended'
      ? toRollout<Outcome>(result.rollout)
      : lostRollout(task, result.failure, startedAt);
  }

  /** The models as workers reach them, or why the rollout cannot run on a worker. */
  #describe<Schema extends z.ZodType, Outcome>(
    task: Task<Schema, Outcome>,
  ): { sent: SentModels } | { failure: RolloutFailure } {
    const { budgets, environment, reach } = this.#options;
    if (task.environment.name !== environment)
      return {
        failure: {
          code: 'environment_mismatch',
          message: `The rollout belongs to environment "${task.environment.name}", but the workers have loaded "${environment}". Pass leases() the module of the same environment.`,
        },
      };
    const described = describeModels(task, (budget) => budgets.numberOf(budget));
    if ('failure' in described) return described;
    const { model, players } = described.sent;
    const moved: SentModels = {
      model: moveModel(model, reach, model),
      players: Object.fromEntries(
        Object.entries(players).map(([seat, player]) => [
          seat,
          { ...player, model: moveModel(player.model, reach, model) },
        ]),
      ),
    };
    const all = [moved.model, ...Object.values(moved.players).map((player) => player.model)];
    const unreachable = reach.isLocal ? undefined : all.find(({ client }) => isOwnAddress(client.baseUrl));
    if (!unreachable || reach.serviceUrl !== undefined) return { sent: moved };
    return {
      failure: {
        code: 'service_not_reachable',
        message: `Workers on other machines cannot reach the service of "${unreachable.name}" at ${unreachable.client.baseUrl}. Pass leases() its address as \`serviceUrl\`.`,
      },
    };
  }
}

/** Workers reach all models of the run's service at the address that they have for it. */
function moveModel(model: SentModel, { serviceUrl }: Reach, ofRun: SentModel): SentModel {
  if (serviceUrl === undefined || model.client.baseUrl !== ofRun.client.baseUrl) return model;
  return { ...model, client: { ...model.client, baseUrl: serviceUrl } };
}

const isOwnAddress = (url: string): boolean => isLoopback(new URL(url).hostname);

const overdue = (timeoutMs: number): RolloutFailure => ({
  code: 'rollout_timeout',
  message:
    `The rollout and its rewards took longer than ${timeoutMs} ms and its worker brought no result: look at what its ` +
    'functions wait for.',
});
