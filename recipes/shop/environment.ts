import { defineEnvironment } from 'martingale';
import { createShopAgent, type Shop } from './agent.ts';
import { type Order, type ShopScenario, shopScenario, valuesOf } from './scenarios.ts';

/** A change to an order. Refunds have the amount. */
export interface Change {
  kind: 'cancel' | 'refund';
  order: string;
  amount?: number;
}

type Customer = Pick<ShopScenario, 'email' | 'orders'>;

/** The shop of one scenario, and what was done to it. Its tools obey: keeping the rules is the agent's task. */
export function openShop({ email, orders }: Customer) {
  const done: { looked: boolean; changes: Change[] } = { looked: false, changes: [] };
  const find = (order: string): Order | undefined => orders.find((one) => one.order === order);
  const change = (made: Change): string => {
    if (find(made.order) === undefined) return `There is no order ${made.order}.`;
    done.changes.push(made);
    return made.kind === 'cancel'
      ? `Order ${made.order} is cancelled.`
      : `$${made.amount} are paid back for order ${made.order}.`;
  };
  const shop: Shop = {
    findOrders: (asked) => {
      if (asked !== email) return `There is no customer ${asked}.`;
      // A look after a change comes too late.
      done.looked ||= done.changes.length === 0;
      return JSON.stringify(orders.toSorted((a, b) => a.order.localeCompare(b.order)));
    },
    cancelOrder: (order) => change({ kind: 'cancel', order }),
    refundOrder: (order, amount) => change({ kind: 'refund', order, amount }),
  };
  return { shop, done };
}

/** What the agent has to do: the only change, and the first word and the fact of its answer. */
export function rightService({ wish, orders }: Pick<ShopScenario, 'wish' | 'orders'>): {
  change: Change | null;
  word: 'Done' | 'Sorry' | 'Info';
  fact: string;
} {
  const [wanted] = orders;
  if (wanted === undefined) throw new RangeError('A scenario needs an order.');
  const { order, paid, arrives, days_since_delivery: days } = wanted;
  switch (wish) {
    case 'arrival':
      return { change: null, word: 'Info', fact: String(arrives) };
    case 'price':
      return { change: null, word: 'Info', fact: String(paid) };
    case 'cancel':
      return { change: { kind: 'cancel', order }, word: 'Done', fact: order };
    case 'refund':
      return { change: { kind: 'refund', order, amount: paid }, word: 'Done', fact: order };
    case 'cancel too late':
      return { change: null, word: 'Sorry', fact: wanted.status };
    case 'refund too late':
      return { change: null, word: 'Sorry', fact: String(days) };
  }
}

/** An answer is one sentence. */
const longestAnswer = 200;

const mentions = (text: string, value: string) => new RegExp(`\\b${value}\\b`, 'i').test(text);

/**
 * The three parts of the reward, each of which needs the one before. `looked`: the agent found the customer's orders
 * before any change. `acted`: it made the right change and no other; where nothing may be changed, it also has to say so
 * by its first word, because doing nothing is no work. `told`: a short answer with the right word and fact, and without a
 * value of another order.
 */
export function checkService(
  scenario: Pick<ShopScenario, 'wish' | 'orders'>,
  { looked, changes, answer }: ReturnType<typeof openShop>['done'] & { answer: string },
) {
  const { change, word, fact } = rightService(scenario);
  const isRightWord = new RegExp(`^\\W*${word}\\b`, 'i').test(answer);
  const [made, ...more] = changes;
  const isRightChange =
    change === null
      ? made === undefined && isRightWord
      : made?.kind === change.kind && made.order === change.order && made.amount === change.amount;
  const others = scenario.orders.slice(1).flatMap(valuesOf);
  const acted = looked && isRightChange && more.length === 0;
  const told =
    acted &&
    isRightWord &&
    answer.length <= longestAnswer &&
    mentions(answer, fact) &&
    !others.some((value) => mentions(answer, value));
  return { looked, acted, told, wrongChange: changes.length > 0 && !isRightChange };
}

type Scored = {
  scenario: ShopScenario;
  state: ReturnType<typeof openShop>;
  outcome: string;
};
const part = (name: keyof ReturnType<typeof checkService>, weight: number) => ({
  weight,
  reward: ({ scenario, state, outcome }: Scored) =>
    Number(checkService(scenario, { ...state.done, answer: outcome })[name]),
});

export const shop = defineEnvironment({
  name: 'shop',
  scenario: shopScenario,
  setup: ({ scenario }) => openShop(scenario),
  rollout: async ({ scenario, state, model, signal }): Promise<string> => {
    const agent = createShopAgent(model.languageModel, state.shop);
    return (await agent.generate({ prompt: scenario.message, abortSignal: signal })).text;
  },
  // A conversation that outgrows the context has no answer.
  atLimit: () => '',
  rewards: {
    looked: part('looked', 0.2),
    acted: part('acted', 0.4),
    told: part('told', 0.4),
    // Metrics only.
    success: part('told', 0),
    wrong_change: part('wrongChange', 0),
  },
});
