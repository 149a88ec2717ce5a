import { setTimeout as sleep } from 'node:timers/promises';
import { deserialize } from 'node:v8';
import { MartingaleError } from '../../../contract/index.ts';
import type { Environment } from '../../../environment/index.ts';
import { messageOf } from '../../../util/error.ts';
import type { Rollout, RolloutFailure } from '../../rollout.ts';
import type { runWithinSpan } from '../../run-rollout.ts';
import { RemoteBudgets } from '../../sent/call-budgets.ts';
import { SentRollouts, sendRollout } from '../../sent/run-sent.ts';
import type { SentStart } from '../../sent/sent-rollout.ts';
import { Inbox, Outbox, readMessage } from '../mailbox.ts';
import { type FromWorker, fromWorkerSchema, type JoinAnswer, type ToWorker } from '../protocol.ts';
import { WorkerError } from '../worker-error.ts';
import type { ProgramConnection } from './connection.ts';

interface WorkerSessionOptions {
  connection: ProgramConnection;
  joined: JoinAnswer;
  environment: Environment;
  /** How each rollout is run. */
  run: typeof runWithinSpan;
  onEnded: (rollout: Rollout) => void;
}

/** How a session ended. `lost`: the program has given its leases to others. `closed`: it needs no workers any more. */
export type SessionEnd = 'left' | 'lost' | 'closed';

/** Pause before a message that did not arrive is sent again, in milliseconds. */
const againMs = 250;

/** A worker that has joined a program: the rollouts that it was given, until it leaves or is given up. */
export class WorkerSession {
  readonly #options: WorkerSessionOptions;
  readonly #outbox = new Outbox<FromWorker>();
  readonly #inbox = new Inbox();
  readonly #budgets = new RemoteBudgets((message) => this.#outbox.push(message));
  readonly #rollouts: SentRollouts;
  readonly #running = new Map<string, AbortController>();
  readonly #end = new AbortController();
  #isIdle = Promise.withResolvers<void>();
  #heardAt = performance.now();
  #endedAs: SessionEnd | undefined;

  constructor(options: WorkerSessionOptions) {
    this.#options = options;
    this.#rollouts = new SentRollouts(options.environment, this.#budgets, options.run);
    this.#isIdle.resolve();
  }

  /** Results that are not known to have arrived: another session can bring them. */
  get undelivered(): FromWorker[] {
    const left = this.#outbox.left.map((message) => fromWorkerSchema.parse(readMessage(message)));
    return left.filter(({ type }) => type === 'ended');
  }

  /** Brings results of an earlier session. */
  deliver(results: readonly FromWorker[]): void {
    for (const result of results) this.#outbox.push(result);
  }

  /** Runs what it is given. Resolves when all its rollouts have been cleaned up. @throws WorkerError `worker_refused` */
  async run(): Promise<SessionEnd> {
    try {
      await Promise.all([this.#receiveAll(), this.#sendAll()]);
    } catch (error) {
      this.#finish(this.#endedAs ?? 'lost');
      if (error instanceof WorkerError && error.code === 'worker_refused') throw error;
    } finally {
      const reason = new MartingaleError(
        'lease_lost',
        'The program has given this rollout to another worker.',
      );
      for (const running of this.#running.values()) running.abort(reason);
      await this.#isIdle.promise;
    }
    return this.#endedAs ?? 'lost';
  }

  /** Takes no more leases, ends its rollouts within the time, gives back the others, and ends the session. */
  async leave(withinMs: number): Promise<void> {
    this.#outbox.push({ type: 'leaving' });
    const waiting = new AbortController();
    const limit = sleep(withinMs, undefined, { signal: waiting.signal }).catch(() => undefined);
    await Promise.race([this.#isIdle.promise, limit]);
    waiting.abort();
    this.#goAs('left');
  }

  /** The session ends as soon as all messages have arrived. */
  #goAs(how: SessionEnd): void {
    this.#endedAs ??= how;
    this.#outbox.push({ type: 'left' });
  }

  async #receiveAll(): Promise<void> {
    const { connection, joined } = this.#options;
    const { signal } = this.#end;
    while (!signal.aborted) {
      const batch = await this.#insist(() => connection.poll(joined, this.#inbox.received, signal));
      for (const message of batch ? this.#inbox.open(batch) : [])
        this.#receive(readMessage(message) as ToWorker);
    }
  }

  async #sendAll(): Promise<void> {
    const { connection, joined } = this.#options;
    const { signal } = this.#end;
    while (!signal.aborted) {
      await this.#outbox.more;
      if (signal.aborted) return;
      const batch = this.#outbox.batch();
      const received = await this.#insist(() => connection.send(joined, batch, signal));
      if (received === undefined) continue;
      this.#outbox.acknowledge(received);
      if (this.#outbox.isEmpty && this.#endedAs !== undefined) this.#finish(this.#endedAs);
    }
  }

  /** Tries once more after a pause where the program is away, as long as it has not given this worker up. */
  async #insist<Answer>(ask: () => Promise<Answer>): Promise<Answer | undefined> {
    try {
      const answer = await ask();
      this.#heardAt = performance.now();
      return answer;
    } catch (error) {
      if (this.#end.signal.aborted) return undefined;
      const isAway = error instanceof WorkerError && error.code === 'program_away';
      if (!isAway || performance.now() - this.#heardAt > this.#options.joined.leaseMs) throw error;
      await sleep(againMs);
      return undefined;
    }
  }

  #receive(message: ToWorker): void {
    if (message.type === 'run') void this.#runLease(message);
    else if (message.type === 'abort') this.#running.get(message.lease)?.abort(toError(message.reason));
    else if (message.type === 'admitted') this.#budgets.admit(message.call);
    else if (message.type === 'refused') this.#budgets.refuse(message.call, message.failure);
    else this.#goAs('closed');
  }

  async #runLease({ lease, epoch, start }: Extract<ToWorker, { type: 'run' }>): Promise<void> {
    const controller = new AbortController();
    if (this.#running.size === 0) this.#isIdle = Promise.withResolvers();
    this.#running.set(lease, controller);
    let ended: Rollout | undefined;
    try {
      const sent: SentStart = deserialize(start);
      ended = await this.#rollouts.run(sent, controller.signal);
      this.#options.onEnded(ended);
      if (!this.#end.signal.aborted)
        sendRollout(ended, (rollout) => this.#outbox.push({ type: 'ended', lease, epoch, rollout }));
    } catch (error) {
      // A deep scenario does not fit into the stack, or a long trajectory into a message.
      const [code, what] = ended
        ? ['outcome_not_cloneable', 'The worker cannot send the result']
        : ['task_not_cloneable', `The worker, with Node ${process.version}, cannot begin the rollout`];
      const failure = { code, message: `${what}: ${messageOf(error)}` };
      this.#outbox.push({ type: 'failed', lease, epoch, failure });
    }
    this.#running.delete(lease);
    if (this.#running.size === 0) this.#isIdle.resolve();
  }

  #finish(how: SessionEnd): void {
    this.#endedAs = how;
    this.#end.abort();
    this.#outbox.wake();
  }
}

const toError = ({ code, message }: RolloutFailure): MartingaleError => new MartingaleError(code, message);
