import { type BudgetNumbers, BudgetSlots } from '../sent/call-budgets.ts';
import type { Lease, LeaseHolder } from './lease.ts';
import { Inbox, Outbox } from './mailbox.ts';
import type { JoinRequest, ToWorker } from './protocol.ts';

/** A worker that has joined, as the program sees it. */
export class RemoteWorker implements LeaseHolder {
  readonly id: string;
  readonly name: string;
  readonly concurrency: number;
  readonly outbox = new Outbox<ToWorker>();
  readonly inbox = new Inbox();
  readonly leases = new Map<string, Lease>();
  readonly slots: BudgetSlots;
  /** When it was last heard of, by the monotonic clock. */
  heardAt = performance.now();
  /** Whether it takes no more leases. */
  isLeaving = false;
  /** Number of rollouts that it has ended. */
  ended = 0;
  /** Number of its messages that could not be read. */
  invalid = 0;
  /** Ends the poll that waits. */
  endPoll: () => void = () => {};

  constructor(id: string, { name, concurrency }: JoinRequest, budgets: BudgetNumbers) {
    this.id = id;
    this.name = name;
    this.concurrency = concurrency;
    this.slots = new BudgetSlots(budgets, (message) => this.send(message));
  }

  /** How many more leases it can be given. */
  get free(): number {
    return this.isLeaving ? 0 : this.concurrency - this.leases.size;
  }

  send(message: ToWorker): void {
    this.outbox.push(message);
  }
}
