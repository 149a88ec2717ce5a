import { context, propagation, ROOT_CONTEXT } from '@opentelemetry/api';
import { Client } from '../../client/index.ts';
import type { Environment } from '../../environment/index.ts';
import { ModelHandle } from '../../model/index.ts';
import { toTrajectoryRecord } from '../../trajectory/index.ts';
import { type Rollout, type RolloutFailure, toFailure, withoutReward } from '../rollout.ts';
import { runWithinSpan } from '../run-rollout.ts';
import type { RemoteBudgets } from './call-budgets.ts';
import { lostRollout, type SentModel, type SentRollout, type SentStart } from './sent-rollout.ts';

/** Runs rollouts that another thread or process has sent. */
export class SentRollouts {
  readonly #environment: Environment;
  readonly #budgets: RemoteBudgets;
  readonly #run: typeof runWithinSpan;
  readonly #clients = new Map<string, Client>();

  /** @param run How each is run, within its span. Default: in this thread. */
  constructor(environment: Environment, budgets: RemoteBudgets, run = runWithinSpan) {
    this.#environment = environment;
    this.#budgets = budgets;
    this.#run = run;
  }

  /** Never throws. */
  run({ task, texts, model, players, trace }: SentStart, signal: AbortSignal): Promise<Rollout> {
    const opened = Object.entries(players).map(([seat, player]) => [
      seat,
      { ...player, model: this.#open(player.model) },
    ]);
    const sent = {
      ...task,
      environment: this.#environment,
      model: this.#open(model),
      players: Object.fromEntries(opened),
      signal,
    };
    try {
      if (texts) sent.environment = this.#environment.withTexts(texts);
    } catch (error) {
      // The module of the worker has other names of texts.
      return Promise.resolve(lostRollout(sent, toFailure(error), performance.now()));
    }
    return context.with(propagation.extract(ROOT_CONTEXT, trace), () => this.#run(sent));
  }

  #open({ client, name, id, settings, budget }: SentModel): ModelHandle {
    return new ModelHandle({
      client: this.#clientOf(client),
      name,
      id,
      settings: budget === null ? settings : { ...settings, budget: this.#budgets.budget(budget) },
    });
  }

  /** Rollouts that call the same service share one client, and so one connection pool. */
  #clientOf(options: SentModel['client']): Client {
    const key = JSON.stringify(options);
    // The program has reached the service before, so the first call here waits for it already.
    const client = this.#clients.get(key) ?? new Client(options, true);
    this.#clients.set(key, client);
    return client;
  }
}

/** Sends a finished rollout. If it cannot be cloned, the rollout fails, not its worker. */
export function sendRollout<Sent>(rollout: Rollout, send: (sent: SentRollout) => Sent): Sent {
  try {
    return send(toSent(rollout));
  } catch (error) {
    const message =
      "The rollout's outcome or trajectory cannot be copied from its worker " +
      `(${toFailure(error).message}). Return plain data: no functions, no open handles.`;
    return send(asFailed(rollout, { code: 'outcome_not_cloneable', message }));
  }
}

/** A rollout without what its environment made, with the reason. */
function asFailed(rollout: Rollout, failure: RolloutFailure): SentRollout {
  const failed = toSent(withoutReward(rollout, { status: 'failed', failure }));
  const { trajectory, seats } = asPlain({ trajectory: failed.trajectory, seats: failed.seats });
  return { ...failed, trajectory, ...(seats ? { seats } : {}) };
}

function toSent({ trajectory, seats, ...rollout }: Rollout): SentRollout {
  const sent = seats?.map((seat) => ({ ...seat, trajectory: toTrajectoryRecord(seat.trajectory) }));
  return { ...rollout, trajectory: toTrajectoryRecord(trajectory), ...(sent ? { seats: sent } : {}) };
}

function asPlain<Value>(value: Value): Value {
  return JSON.parse(JSON.stringify(value));
}
