import { describe, expect, it } from 'vitest';
import { checkService, openShop, rightService, shop } from '../../../recipes/shop/environment.ts';
import {
  type Order,
  type ShopScenario,
  shopScenarios,
  valuesOf,
  wishes,
} from '../../../recipes/shop/scenarios.ts';
import { ModelHandle, runGroups } from '../../../src/index.ts';
import { type FakePolicy, type Reply, startFakeService } from '../../model/fake-service.ts';

const scenarios = shopScenarios({ split: 'val', seed: 1, count: 60 });

const call = (name: string, input: object): Reply => ({
  toolCalls: [{ name, arguments: JSON.stringify(input) }],
});
const looksUp = ({ email }: ShopScenario) => call('find_orders', { email });

const says = ({ wish, orders }: ShopScenario): Reply => {
  const { word, fact } = rightService({ wish, orders });
  return { text: `${word}: it is ${fact}.` };
};

/** What the right change calls; null without one. */
function changes({ wish, orders }: ShopScenario): Reply | null {
  const { change } = rightService({ wish, orders });
  if (change === null) return null;
  const { kind, order, amount } = change;
  return kind === 'cancel' ? call('cancel_order', { order }) : call('refund_order', { order, amount });
}

/** Serves each scenario once with an agent that makes these replies; gives what the rollouts were worth. */
async function served(plan: (scenario: ShopScenario) => readonly (Reply | null)[]) {
  const policy: FakePolicy = ({ messages }) => {
    const text = String(messages.find(({ role }) => role === 'user')?.content);
    const scenario = scenarios.find(({ message }) => message === text);
    const replies = scenario ? plan(scenario).filter((reply) => reply !== null) : [];
    return replies[messages.filter(({ role }) => role === 'assistant').length] ?? { text: '' };
  };
  await using service = await startFakeService({ policy });
  const model = new ModelHandle({ client: service.client, name: 'local/shop/policy:step0' });
  const { groups } = await runGroups({ environment: shop, scenarios, rolloutsPerGroup: 1, model });
  const rollouts = groups.flatMap((group) => group.rollouts);
  expect(rollouts.map(({ status }) => status)).toEqual(scenarios.map(() => 'completed'));
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  return {
    reward: mean(rollouts.map(({ trajectory }) => trajectory.reward ?? Number.NaN)),
    success: mean(rollouts.map(({ trajectory }) => Number(trajectory.metrics.success))),
    requests: service.requests,
  };
}

describe('the scenarios of the shop', () => {
  it('have every wish, share no customer and no item between the splits, and follow from the seed', () => {
    const train = shopScenarios({ split: 'train', seed: 1, count: 500 });
    for (const set of [train, scenarios])
      expect(new Set(set.map(({ wish }) => wish))).toEqual(new Set(wishes));
    const names = new Set(train.map(({ email }) => email.replace(/\d.*/, '')));
    const items = new Set(train.flatMap(({ orders }) => orders.map(({ item }) => item)));
    expect(scenarios.filter(({ email }) => names.has(email.replace(/\d.*/, '')))).toEqual([]);
    expect(scenarios.filter(({ orders }) => orders.some(({ item }) => items.has(item)))).toEqual([]);
    expect(shopScenarios({ split: 'train', seed: 1, count: 500 })).toEqual(train);
    expect(shopScenarios({ split: 'train', seed: 2, count: 500 })).not.toEqual(train);
  });

  it('name the item and the customer, and have orders that no value confuses', () => {
    for (const { message, email, orders } of shopScenarios({ split: 'train', seed: 3, count: 500 })) {
      expect(message).toContain(email);
      expect(message).toContain(orders[0]?.item);
      const values = orders.flatMap((order) => [order.item, ...valuesOf(order)]);
      expect(values).toEqual([...new Set(values)]);
    }
  });
});

describe('the shop', () => {
  it('pays 1 for a look, the right change and the right answer, in at most three calls', async () => {
    const { reward, success, requests } = await served((one) => [looksUp(one), changes(one), says(one)]);
    expect(reward).toBeCloseTo(1);
    expect(success).toBe(1);
    expect(requests.length).toBeLessThanOrEqual(3 * scenarios.length);
    expect(Math.max(...requests.map(({ max_completion_tokens: limit }) => Number(limit)))).toBe(120);
  });

  it('pays nothing for an answer without a look, even the right one', async () => {
    expect(await served((one) => [says(one)])).toMatchObject({ reward: 0, success: 0 });
  });

  it('pays nothing for a look under another email, and none for a look after the change', async () => {
    const wrongEmail = await served((one) => [call('find_orders', { email: 'a@b.c' }), says(one)]);
    expect(wrongEmail.reward).toBe(0);
    const withChange = scenarios.filter((one) => changes(one) !== null).length / scenarios.length;
    const { success } = await served((one) => [changes(one), looksUp(one), says(one)]);
    expect(success).toBeCloseTo(1 - withChange);
  });

  it.each<[string, (one: ShopScenario) => (Reply | null)[]]>([
    ['looks and says nothing', (one) => [looksUp(one)]],
    ['refuses everyone', (one) => [looksUp(one), { text: 'Sorry, it has shipped.' }]],
    ['reads out all that it found', (one) => [looksUp(one), { text: `Info: ${JSON.stringify(one.orders)}` }]],
    ['says all words at once', (one) => [looksUp(one), { text: 'Done, sorry, info: shipped on Friday' }]],
    [
      'cancels and refunds all orders',
      (one) => [
        looksUp(one),
        {
          toolCalls: one.orders.flatMap(({ order, paid }) => [
            { name: 'cancel_order', arguments: JSON.stringify({ order }) },
            { name: 'refund_order', arguments: JSON.stringify({ order, amount: paid }) },
          ]),
        },
        says(one),
      ],
    ],
    [
      'claims what it did not do',
      (one) => [looksUp(one), { text: `Done: order ${one.orders[0]?.order} is refunded.` }],
    ],
  ])('pays little to an agent that %s', async (_, plan) => {
    const { reward, success } = await served(plan);
    expect(reward).toBeLessThan(0.5);
    expect(success).toBeLessThan(0.25);
  });

  it('does not take words for numbers, or a part of a number for the whole', () => {
    const orders: Order[] = [
      { order: '4821', item: 'lamp', paid: 149, status: 'shipped', arrives: 'Friday' },
      { order: '7310', item: 'tent', paid: 250, status: 'packing', arrives: 'Monday' },
    ];
    const scenario = { wish: 'price', orders } as const;
    const told = (answer: string) => checkService(scenario, { looked: true, changes: [], answer }).told;
    expect(told('Info: you paid $149.00 for the lamp.')).toBe(true);
    expect(told('**Info** - the lamp, order 4821, was $149.')).toBe(true);
    expect(told('Info: you paid 1490 dollars.')).toBe(false);
    expect(told('Info: the lamp was $149 and the tent $250.')).toBe(false);
    expect(told('Information about this: $149.')).toBe(false);
  });

  it('has tools that obey, even against the rules, and know its orders', () => {
    const { shop, done } = openShop({
      email: 'a@b.c',
      orders: [{ order: '4821', item: 'lamp', paid: 149, status: 'shipped', arrives: 'Friday' }],
    });
    expect(shop.findOrders('b@b.c')).toBe('There is no customer b@b.c.');
    expect(shop.cancelOrder('4822')).toBe('There is no order 4822.');
    expect(done).toEqual({ looked: false, changes: [] });
    expect(JSON.parse(shop.findOrders('a@b.c'))).toMatchObject([{ order: '4821', status: 'shipped' }]);
    expect(shop.cancelOrder('4821')).toBe('Order 4821 is cancelled.');
    expect(done).toEqual({ looked: true, changes: [{ kind: 'cancel', order: '4821' }] });
  });
});
