import { deriveSeed } from 'martingale';
import { z } from 'zod';
import { Dice } from '../common/dice.ts';

/** What the message says. */
export const orderSchema = z.object({
  customer: z.string().max(24),
  city: z.string().max(24),
  item: z.string().max(24),
  count: z.number().int().min(0).max(999),
});

export type Order = z.infer<typeof orderSchema>;

export const extractScenario = z.object({ id: z.string(), message: z.string(), order: orderSchema });

export type ExtractScenario = z.infer<typeof extractScenario>;

/** The last of each list and the last phrasings are for validation only, so nothing held out was ever trained on. */
const customers =
  `Anna Bruno Carla Deniz Elif Farid Greta Hugo Ines Jonas Kofi Lena Marta Nils Olga Pavel Quentin Rosa Samir Tilda
  Umar Vera Wanda Yusuf Adele Boris Chiara Dario Emma Felix Gina Hamid Irina Jakob Karim Luisa Milan Nadia Oskar Petra
  Ralf Sofia Timo Ursula Viktor Zoe Amir Britta Cedric Dora`.split(/\s+/);
const items =
  `lamps chairs mugs tents bikes shirts desks ropes pens boots clocks drums kettles scarves ladders mirrors candles
  pillows shelves baskets gloves plates spoons buckets hammers puzzles carpets jackets stools vases brushes towels
  blankets bottles skates`.split(/\s+/);
const cities =
  `Lyon Oslo Porto Turin Ghent Graz Brno Cork Bern Split Riga Malmo Siena Leeds Basel Gdansk Vigo Nantes Bergen Linz
  Tartu Parma Utrecht Kiel Girona Varna Aarhus Dijon`.split(/\s+/);
const phrasings: readonly ((order: Order) => string)[] = [
  ({ customer, city, item, count }) =>
    `Hi, this is ${customer} from ${city}. Please send me ${count} ${item}.`,
  ({ customer, city, item, count }) => `${count} ${item} to ${city} for ${customer}, thanks!`,
  ({ customer, city, item, count }) =>
    `My name is ${customer} and I would like to order ${count} ${item}. I live in ${city}.`,
  ({ customer, city, item, count }) =>
    `Could you ship ${count} ${item} to my office in ${city}? Regards, ${customer}`,
  ({ customer, city, item, count }) => `I need ${count} ${item}. Deliver them to ${customer}, ${city}.`,
  ({ customer, city, item, count }) =>
    `Greetings from ${city}! We are out of ${item}: ${count} more, please. ${customer}`,
  ({ customer, city, item, count }) =>
    `${customer} speaking. Our shop in ${city} wants ${count} ${item} this week.`,
  ({ customer, city, item, count }) =>
    `For our house in ${city}: ${item}, ${count} of them. Yours, ${customer}`,
  ({ customer, city, item, count }) =>
    `Dear team, ${customer} has asked me to order ${count} ${item} for ${city}.`,
  ({ customer, city, item, count }) =>
    `How much are ${count} ${item} with delivery to ${city}? I am ${customer}.`,
  ({ customer, city, item, count }) => `${customer} here. We need ${count} ${item} in ${city} by Friday.`,
  ({ customer, city, item, count }) =>
    `Hello, do you deliver to ${city}? If so, put ${count} ${item} on my account. ${customer}`,
  ({ customer, city, item, count }) => `Please add ${count} ${item} to the order of ${customer} in ${city}.`,
];

const heldOut = { customers: 12, items: 8, cities: 7, phrasings: 3 } as const;

function ofSplit<Item>(list: readonly Item[], own: number, split: 'train' | 'val'): readonly Item[] {
  return split === 'train' ? list.slice(0, -own) : list.slice(-own);
}

/** Messages with what they say: the same ones for the same seed. */
export function extractScenarios({
  split,
  seed,
  count,
}: {
  split: 'train' | 'val';
  seed: number;
  count: number;
}): ExtractScenario[] {
  const dice = new Dice(deriveSeed(seed, split === 'train' ? 0 : 1));
  return Array.from({ length: count }, (_, index) => {
    const order = {
      customer: dice.pick(ofSplit(customers, heldOut.customers, split)),
      city: dice.pick(ofSplit(cities, heldOut.cities, split)),
      item: dice.pick(ofSplit(items, heldOut.items, split)),
      count: 2 + dice.below(48),
    };
    const message = dice.pick(ofSplit(phrasings, heldOut.phrasings, split))(order);
    return { id: `${split}-${index}`, message, order };
  });
}
