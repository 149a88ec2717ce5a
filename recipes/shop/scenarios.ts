import { deriveSeed } from 'martingale';
import { z } from 'zod';
import { Dice } from '../common/dice.ts';

/** What a customer may want, and whether the rules of the shop allow it. */
export const wishes = ['arrival', 'price', 'cancel', 'cancel too late', 'refund', 'refund too late'] as const;
export type Wish = (typeof wishes)[number];

const weekdays = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'] as const;

/** An order as the shop stores it. */
const order = z.object({
  /** Four digits. */
  order: z.string(),
  item: z.string(),
  /** In dollars: three digits. */
  paid: z.number().int(),
  status: z.enum(['packing', 'shipped', 'delivered']),
  /** When it arrives; absent after delivery. */
  arrives: z.enum(weekdays).optional(),
  /** Days since the delivery; absent before it. */
  days_since_delivery: z.number().int().optional(),
});

export type Order = z.infer<typeof order>;

export const shopScenario = z.object({
  id: z.string(),
  message: z.string(),
  email: z.string(),
  wish: z.enum(wishes),
  /** The orders of this customer. The first is the one in question, but the desk lists them by number. */
  orders: z.array(order).min(1),
});

export type ShopScenario = z.infer<typeof shopScenario>;

export type Split = 'train' | 'val';

const cancelling = [
  'Please cancel the @item. My email is @email.',
  'I changed my mind about the @item, do not send it. @email',
  'Hi, @email here. Stop my order of the @item.',
  'I am @email and no longer need the @item. Call it off, please.',
];

const refunding = [
  'I want my money back for the @item. My email is @email.',
  'Hi, this is @email. Please refund the @item.',
  'The @item is not for me. Can I return it for a refund? @email',
  'I am @email and unhappy with the @item. Pay me back, please.',
];

/** The last phrasing of each is for validation only. */
const phrasings: Record<Wish, readonly string[]> = {
  arrival: [
    'When does my @item arrive? My email is @email.',
    'Hi, @email here. Which day will the @item come?',
    'I ordered the @item (@email). What day do I get it?',
    'On which day should I be at home for the @item? I am @email.',
  ],
  price: [
    'How much did I pay for the @item? My email is @email.',
    'Hello, I am @email. What was the price of my @item?',
    'What did the @item cost me? @email',
    'I need it for my taxes: what did I spend on the @item? @email',
  ],
  cancel: cancelling,
  'cancel too late': cancelling,
  refund: refunding,
  'refund too late': refunding,
};

const names: Record<Split, readonly string[]> = {
  train: [
    ...['anna', 'boris', 'carla', 'dilip', 'emma', 'felix', 'gina', 'hugo', 'ines', 'jonas', 'kofi', 'lena'],
    ...['marta', 'nils', 'olga', 'pavel', 'rosa', 'samir', 'tara', 'uwe', 'vera', 'wei', 'yusuf', 'zoe'],
  ],
  val: ['alma', 'bruno', 'chloe', 'david', 'elif', 'frida', 'greta', 'henri'],
};

const hosts = ['mail.com', 'post.org', 'web.net'] as const;

const items: Record<Split, readonly string[]> = {
  train: [
    ...['lamp', 'kettle', 'chair', 'tent', 'radio', 'blanket', 'jacket', 'toaster', 'mirror', 'clock'],
    ...['carpet', 'printer', 'bicycle', 'heater', 'camera', 'desk', 'guitar', 'helmet'],
  ],
  val: ['backpack', 'ladder', 'teapot', 'scooter', 'monitor', 'sofa'],
};

/** Whole numbers from `low` to `high`. */
const between = (low: number, high: number, dice: Dice) => low + dice.below(high - low + 1);

type State = Pick<Order, 'status' | 'arrives' | 'days_since_delivery'>;

const notDelivered = (status: Order['status'], dice: Dice): State => ({
  status,
  arrives: dice.pick(weekdays),
});

const delivered = (isLate: boolean, dice: Dice): State => ({
  status: 'delivered',
  days_since_delivery: isLate ? between(31, 90, dice) : between(1, 29, dice),
});

const anyState = (dice: Dice): State =>
  dice.chance(0.5)
    ? notDelivered(dice.pick(['packing', 'shipped']), dice)
    : delivered(dice.chance(0.5), dice);

/** The state that the order in question has for a wish. */
const stateFor: Record<Wish, (dice: Dice) => State> = {
  arrival: (dice) => notDelivered(dice.pick(['packing', 'shipped']), dice),
  price: anyState,
  cancel: (dice) => notDelivered('packing', dice),
  'cancel too late': (dice) => notDelivered('shipped', dice),
  refund: (dice) => delivered(false, dice),
  'refund too late': (dice) => delivered(true, dice),
};

/** What a reply may mention of an order, so that it tells orders apart. */
export const valuesOf = (one: Order): string[] =>
  [one.order, one.paid, one.arrives, one.days_since_delivery].flatMap((value) =>
    value === undefined ? [] : [String(value)],
  );

export function drawScenario(split: Split, dice: Dice): Omit<ShopScenario, 'id'> {
  const wish = dice.pick(wishes);
  const make = (state: State): Order => ({
    order: String(between(1000, 9999, dice)),
    item: dice.pick(items[split]),
    paid: between(100, 399, dice),
    ...state,
  });
  const wanted = make(stateFor[wish](dice));
  const taken = new Set([...valuesOf(wanted), wanted.item]);
  let other = make(anyState(dice));
  while ([...valuesOf(other), other.item].some((value) => taken.has(value))) other = make(anyState(dice));
  const email = `${dice.pick(names[split])}${between(10, 99, dice)}@${dice.pick(hosts)}`;
  const phrasing = dice.pick(split === 'val' ? phrasings[wish] : phrasings[wish].slice(0, -1));
  const message = phrasing.replace('@item', wanted.item).replace('@email', email);
  return { message, email, wish, orders: [wanted, other] };
}

/**
 * Random scenarios of a split: one of six wishes, a customer with two orders, and a message. The splits have no customer
 * and no item in common, and one phrasing in four is for validation only. The same seed gives the same scenarios.
 */
export function shopScenarios({
  split,
  seed,
  count,
}: {
  split: Split;
  seed: number;
  count: number;
}): ShopScenario[] {
  const dice = new Dice(deriveSeed(seed, split === 'train' ? 0 : 1));
  return Array.from({ length: count }, (_, index) => ({
    id: `${split}-${index}`,
    ...drawScenario(split, dice),
  }));
}
