import { callBudget } from 'martingale';
import { expect, it, onTestFinished } from 'vitest';
import { LeaseHub } from '../../../src/rollout/leases/lease-hub.ts';
import { BudgetNumbers } from '../../../src/rollout/sent/call-budgets.ts';

const never = {
  order: 0,
  inAllMs: 60_000,
  afterAbortMs: 60_000,
  receive: () => expect.fail('no result came'),
};
const overdue = { code: 'rollout_timeout', message: 'It took too long.' };
const cancelled = { code: 'cancelled', message: 'The run was stopped.' };

function openHub(budgets = new BudgetNumbers()) {
  const times = { leaseMs: 60_000, graceMs: 60_000, waitForWorkersMs: 60_000 };
  const hub = new LeaseHub({ ...times, maxLosses: 5, budgets, onEvent: () => {} });
  onTestFinished(() => hub.close());
  const join = (name: string) =>
    hub.join({ name, martingale: '', cloneFormat: 15, environment: '', files: {}, concurrency: 1 });
  return { hub, join };
}

it.each(['left', 'refused'])(
  'a stopped rollout whose worker is %s ends, and no other gets it',
  async (how) => {
    const { hub, join } = openHub();
    const holder = join('one');
    const lease = hub.open({ ...never, overdue });
    const other = join('two');
    hub.begin(lease, new Uint8Array([1]));
    hub.abort(lease, cancelled);
    for (let sent = 0; sent < 3; sent++) hub.receive(holder, how === 'left' ? { type: 'left' } : null);
    expect(await lease.ended).toEqual({ type: 'lost', failure: cancelled });
    expect(other.outbox.isEmpty).toBe(true);
    expect(hub.stats()).toMatchObject({ waiting: 0, running: 0, givenAgain: 0 });
  },
);

it('a rollout that is stopped before its worker has heard of it does not begin', async () => {
  const { hub, join } = openHub();
  const worker = join('one');
  const lease = hub.open({ ...never, overdue });
  await lease.given;
  hub.abort(lease, cancelled);
  hub.begin(lease, new Uint8Array([1]));
  expect(await lease.ended).toEqual({ type: 'lost', failure: cancelled });
  expect(worker.outbox.isEmpty).toBe(true);
});

it('a call that a worker announces after it has left takes no slot of the budget', async () => {
  const budget = callBudget({ concurrency: 1 });
  const budgets = new BudgetNumbers();
  const number = budgets.numberOf(budget);
  const { hub, join } = openHub(budgets);
  const worker = join('one');
  hub.receive(worker, { type: 'enter', call: 1, budget: number });
  await new Promise(setImmediate);
  expect(budget.stats().inFlight).toBe(1);
  // One batch may hold both.
  hub.receive(worker, { type: 'left' });
  hub.receive(worker, { type: 'enter', call: 2, budget: number });
  await new Promise(setImmediate);
  expect(budget.stats()).toMatchObject({ inFlight: 0, waiting: 0 });
});
