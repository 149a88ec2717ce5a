import { callBudget } from 'martingale';
import { expect, it } from 'vitest';
import { LeaseHub } from '../../../src/rollout/leases/lease-hub.ts';
import { BudgetNumbers } from '../../../src/rollout/sent/call-budgets.ts';

it('a call that a worker announces after it has left takes no slot of the budget', async () => {
  const budget = callBudget({ concurrency: 1 });
  const budgets = new BudgetNumbers();
  const number = budgets.numberOf(budget);
  const times = { leaseMs: 1000, graceMs: 1000, waitForWorkersMs: 1000 };
  const hub = new LeaseHub({ ...times, maxLosses: 1, budgets, onEvent: () => {} });
  const worker = hub.join({
    ...{ name: 'one', martingale: '', cloneFormat: 15, environment: '', files: {} },
    ...{ concurrency: 1 },
  });
  hub.receive(worker, { type: 'enter', call: 1, budget: number });
  await new Promise(setImmediate);
  expect(budget.stats().inFlight).toBe(1);
  // One batch may hold both.
  hub.receive(worker, { type: 'left' });
  hub.receive(worker, { type: 'enter', call: 2, budget: number });
  await new Promise(setImmediate);
  expect(budget.stats()).toMatchObject({ inFlight: 0, waiting: 0 });
});
