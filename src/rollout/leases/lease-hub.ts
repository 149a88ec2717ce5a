import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { maxTimerMs } from '../../util/deadline.ts';
import { messageOf } from '../../util/error.ts';
import type { RolloutFailure } from '../rollout.ts';
import type { BudgetNumbers } from '../sent/call-budgets.ts';
import type { SentRollout } from '../sent/sent-rollout.ts';
import { Absence } from './absence.ts';
import { Lease, type LeaseOptions, WaitingLeases } from './lease.ts';
import { type FromWorker, fromWorkerSchema, type JoinRequest } from './protocol.ts';
import { RemoteWorker } from './remote-worker.ts';
import type { LeaseStats, WorkerEvent } from './worker-event.ts';

interface LeaseHubOptions {
  leaseMs: number;
  graceMs: number;
  maxLosses: number;
  waitForWorkersMs: number;
  budgets: BudgetNumbers;
  onEvent: (event: WorkerEvent) => void;
}

/** Gives leases to workers, and takes them away from those that are lost. Each lease ends once. */
export class LeaseHub {
  readonly #options: LeaseHubOptions;
  readonly #workers = new Map<string, RemoteWorker>();
  readonly #leases = new Map<string, Lease>();
  readonly #waiting = new WaitingLeases();
  /** Workers whose messages could not be read. */
  readonly #refusedNames = new Set<string>();
  #arrivals = 0;
  #givenAgain = 0;
  #ignored = 0;
  /** Looks after workers and keeps the process alive, while there are leases. */
  #watch: NodeJS.Timeout | undefined;
  readonly #lookEveryMs: number;
  /** When the next look is due. */
  #lookAt = 0;
  readonly #absence: Absence;

  constructor(options: LeaseHubOptions) {
    this.#options = options;
    this.#lookEveryMs = Math.min(options.leaseMs / 4, 1000);
    this.#absence = new Absence(options);
  }

  /** How a worker is started, as a sentence, for when there is none. */
  set howToStart(sentence: string) {
    this.#absence.howToStart = `${sentence}.`;
  }

  stats(): LeaseStats {
    const workers = [...this.#workers.values()].map(({ name, concurrency, leases, ended }) => ({
      name,
      concurrency,
      running: leases.size,
      ended,
    }));
    const waiting = this.#waiting.size;
    const running = this.#leases.size - waiting;
    return { workers, waiting, running, givenAgain: this.#givenAgain, ignored: this.#ignored };
  }

  open(options: LeaseOptions): Lease {
    const lease = new Lease(randomUUID(), this.#arrivals++, options);
    this.#leases.set(lease.id, lease);
    this.#waiting.add(lease);
    if (!this.#watch) {
      this.#lookAt = performance.now() + this.#lookEveryMs;
      this.#watch = setInterval(() => this.#look(), this.#lookEveryMs);
    }
    this.#assign();
    return lease;
  }

  /** Sends the rollout of a lease to its holder, now and whenever it has another. */
  begin(lease: Lease, start: Uint8Array): void {
    lease.start = start;
    this.#send(lease);
  }

  /** Ends the rollout of a lease as soon as its holder has cleaned up. */
  abort(lease: Lease, reason: RolloutFailure): void {
    if (!this.#leases.has(lease.id)) return;
    if (lease.holder && lease.start) {
      lease.abortReason = reason;
      lease.holder.send({ type: 'abort', lease: lease.id, reason });
      this.#limit(lease, lease.options.afterAbortMs, reason);
    } else this.end(lease, reason);
  }

  /** Ends a lease without a rollout. */
  end(lease: Lease, failure: RolloutFailure): void {
    if (!this.#close(lease)) return;
    lease.end({ type: 'lost', failure });
    this.#assign();
  }

  join(request: JoinRequest): RemoteWorker {
    const worker = new RemoteWorker(randomUUID(), request, this.#options.budgets);
    this.#workers.set(worker.id, worker);
    this.#tell('joined', worker, `runs ${worker.concurrency} rollouts at a time; ${this.#count()}`);
    this.#assign();
    return worker;
  }

  worker(id: string): RemoteWorker | undefined {
    return this.#workers.get(id);
  }

  /** Takes a message of a worker. If it cannot be read, the worker loses the rollout that the message names. */
  receive(worker: RemoteWorker, sent: unknown): void {
    const parsed = fromWorkerSchema.safeParse(sent);
    if (!parsed.success) {
      this.#refuseMessage(worker, undefined, z.prettifyError(parsed.error).slice(0, 500));
      return;
    }
    const message = parsed.data;
    if (message.type === 'ended') this.#receiveEnd(worker, message);
    // From a worker that is gone only results count: it would never give back a slot of a budget.
    else if (!this.#workers.has(worker.id)) return;
    else if (message.type === 'failed') this.#receiveFailure(worker, message);
    else if (message.type === 'leaving') worker.isLeaving = true;
    else if (message.type === 'left') this.#remove(worker, 'left');
    else worker.slots.receive(message);
  }

  /** Tells all workers that they may go. */
  close(): void {
    clearInterval(this.#watch);
    for (const worker of this.#workers.values()) worker.send({ type: 'closing' });
  }

  get hasWorkers(): boolean {
    return this.#workers.size > 0;
  }

  /** Why a worker of this name may not join again; undefined if it may. */
  whyRefused({ name }: JoinRequest): string | undefined {
    return this.#refusedNames.has(name)
      ? `it has sent ${maxInvalid} messages that could not be read. Fix it, then restart the program`
      : undefined;
  }

  #refuseMessage(worker: RemoteWorker, lease: Lease | undefined, problem: string): void {
    worker.invalid++;
    this.#tell('invalid', worker, `has sent what cannot be read, so others get its rollout: ${problem}`);
    if (lease?.holder === worker) {
      const reason = { code: 'invalid_result', message: problem };
      worker.send({ type: 'abort', lease: lease.id, reason });
      this.#takeBack(lease, worker, 'lost');
    }
    if (worker.invalid >= maxInvalid) {
      this.#refusedNames.add(worker.name);
      this.#remove(worker, 'refused');
    } else this.#assign();
  }

  #receiveEnd(
    worker: RemoteWorker,
    { lease: id, epoch, rollout: sent }: Extract<FromWorker, { type: 'ended' }>,
  ): void {
    const lease = this.#leases.get(id);
    let rollout: SentRollout | undefined;
    try {
      rollout = lease?.options.receive(sent);
    } catch (error) {
      this.#refuseMessage(worker, lease, messageOf(error));
      return;
    }
    // A worker that was given up may still bring its result; but what failed or was stopped there, another has begun anew.
    if (!lease || !rollout || (epoch !== lease.epoch && rollout.status !== 'completed')) {
      this.#ignored++;
      return;
    }
    const { holder } = lease;
    worker.ended++;
    if (!this.#close(lease)) return;
    const reason = { code: 'result_known', message: 'Another worker has brought the result.' };
    if (holder && holder !== worker) holder.send({ type: 'abort', lease: id, reason });
    lease.end({ type: 'ended', rollout: fromWorker(rollout, worker) });
    this.#assign();
  }

  #receiveFailure(
    worker: RemoteWorker,
    { lease: id, epoch, failure }: Extract<FromWorker, { type: 'failed' }>,
  ): void {
    const lease = this.#leases.get(id);
    if (lease?.holder === worker && epoch === lease.epoch) this.end(lease, onWorker(failure, worker));
    else this.#ignored++;
  }

  #assign(): void {
    for (let lease = this.#waiting.first; lease; lease = this.#waiting.first) {
      const worker = this.#freest();
      if (!worker) return;
      this.#give(lease, worker);
    }
  }

  #freest(): RemoteWorker | undefined {
    let freest: RemoteWorker | undefined;
    for (const worker of this.#workers.values())
      if (worker.free > 0 && (!freest || worker.free / worker.concurrency > freest.free / freest.concurrency))
        freest = worker;
    return freest;
  }

  #give(lease: Lease, worker: RemoteWorker): void {
    this.#waiting.remove(lease);
    lease.give(worker);
    this.#send(lease);
  }

  #send(lease: Lease): void {
    const { id, epoch, start, holder, options } = lease;
    if (!start || !holder) return;
    holder.send({ type: 'run', lease: id, epoch, start });
    this.#limit(lease, options.inAllMs, options.overdue);
  }

  /** Ends a lease when its time with its holder is over, and some more. */
  #limit(lease: Lease, milliseconds: number, failure: RolloutFailure): void {
    clearTimeout(lease.timer);
    const afterMs = Math.min(milliseconds + this.#options.graceMs, maxTimerMs);
    lease.timer = setTimeout(() => {
      lease.holder?.send({ type: 'abort', lease: lease.id, reason: failure });
      this.end(lease, failure);
    }, afterMs);
  }

  /** False if it has ended before. */
  #close(lease: Lease): boolean {
    if (!this.#leases.delete(lease.id)) return false;
    this.#waiting.remove(lease);
    lease.holder?.leases.delete(lease.id);
    lease.holder = undefined;
    if (this.#leases.size === 0) {
      clearInterval(this.#watch);
      this.#watch = undefined;
      this.#absence.end();
    }
    return true;
  }

  #remove(worker: RemoteWorker, why: 'left' | 'lost' | 'refused'): void {
    if (!this.#workers.delete(worker.id)) return;
    worker.endPoll();
    worker.slots.releaseAll();
    const count = worker.leases.size;
    for (const lease of [...worker.leases.values()])
      this.#takeBack(lease, worker, why === 'left' ? 'left' : 'lost');
    const had = count === 1 ? 'one rollout' : `${count} rollouts`;
    const what = count === 0 ? '' : `; ${had} it had ${count === 1 ? 'goes' : 'go'} to others`;
    const how = {
      left: 'has left',
      lost: `is lost: nothing was heard of it for ${this.#options.leaseMs} ms`,
      refused: `is refused: ${maxInvalid} of its messages could not be read`,
    }[why];
    this.#tell(why, worker, `${how}${what}; ${this.#count()}`);
    this.#assign();
  }

  #takeBack(lease: Lease, worker: RemoteWorker, why: 'left' | 'lost'): void {
    worker.leases.delete(lease.id);
    lease.holder = undefined;
    clearTimeout(lease.timer);
    if (lease.abortReason) {
      this.end(lease, lease.abortReason);
      return;
    }
    if (why === 'lost' && ++lease.losses >= this.#options.maxLosses) {
      const message =
        `${lease.losses} workers were lost while they had this rollout, the last one ${worker.name}: it may end its ` +
        'process, or block its thread for too long: start workers with --threads, and look at their output.';
      this.end(lease, { code: 'worker_died', message });
      return;
    }
    this.#givenAgain++;
    this.#waiting.add(lease);
  }

  /** Finds lost workers. While this process was held up, it could not hear of them, and that does not count. */
  #look(): void {
    const now = performance.now();
    const lateMs = now - this.#lookAt;
    this.#lookAt = now + this.#lookEveryMs;
    if (lateMs > this.#lookEveryMs)
      for (const worker of this.#workers.values()) worker.heardAt = Math.min(now, worker.heardAt + lateMs);
    for (const worker of [...this.#workers.values()])
      if (now - worker.heardAt > this.#options.leaseMs) this.#remove(worker, 'lost');
    const failure = this.#absence.look(now, { workers: this.#workers.size, waiting: this.#waiting.size });
    if (failure) for (const lease of [...this.#waiting]) this.end(lease, failure);
  }

  #count(): string {
    return this.#workers.size === 1 ? '1 worker' : `${this.#workers.size} workers`;
  }

  #tell(type: WorkerEvent['type'], worker: RemoteWorker, what: string): void {
    this.#options.onEvent({ type, worker: worker.name, message: `Worker ${worker.name} ${what}.` });
  }
}

/** After so many messages that cannot be read, a worker is given up. */
const maxInvalid = 3;

/** A failed rollout says where it ran: a worker that cannot reach the service fails all of its own. */
const onWorker = (failure: RolloutFailure, { name }: RemoteWorker): RolloutFailure => ({
  ...failure,
  message: `${failure.message} (on worker ${name})`,
});

const fromWorker = (rollout: SentRollout, worker: RemoteWorker): SentRollout =>
  rollout.status === 'failed' ? { ...rollout, failure: onWorker(rollout.failure, worker) } : rollout;
