import { describe, expect, it } from 'vitest';
import { deskScenarios, splitOf } from '../../../recipes/desk/scenarios.ts';

const draw = (split: 'train' | 'val', count = 4000, seed = 1) => deskScenarios({ split, seed, count });

/** Share of the scenarios that have a property. */
const share = <Item>(items: Item[], has: (item: Item) => boolean) => items.filter(has).length / items.length;

describe('desk scenarios', () => {
  it('come out the same for the same seed, and different for another', () => {
    expect(draw('train', 50)).toEqual(draw('train', 50));
    expect(draw('train', 50, 2)).not.toEqual(draw('train', 50));
    expect(draw('train', 100).slice(0, 50)).toEqual(draw('train', 50));
  });

  it('share phrasings between the splits, but no order number', () => {
    const [train, val] = [draw('train'), draw('val')];
    const orders = new Set(train.map(({ order }) => order));
    expect(val.filter(({ order }) => orders.has(order))).toEqual([]);
    const phrasings = (scenarios: typeof train) =>
      new Set(scenarios.map(({ message, order }) => message.replace(order, '@')));
    expect(phrasings(val)).toEqual(phrasings(train));
    expect(phrasings(train).size).toBe(3 * 4 * 4);
  });

  it('keep every digit at every place in both splits', () => {
    for (const split of ['train', 'val'] as const)
      for (const place of [0, 1, 2, 3])
        expect(new Set(draw(split).map(({ order }) => order[place])).size).toBe(10);
    expect(splitOf('0000')).toBe('val');
    expect(splitOf('4821')).toBe('train');
  });

  it('want each tool alike, are denied half the time and have every code', () => {
    const scenarios = draw('train');
    for (const tool of ['refund', 'track', 'cancel'])
      expect(share(scenarios, (scenario) => scenario.tool === tool)).toBeCloseTo(1 / 3, 1);
    expect(share(scenarios, ({ fine }) => fine)).toBeCloseTo(0.5, 1);
    expect(new Set(scenarios.map(({ code }) => code)).size).toBe(100);
  });

  it('name the order in the message, and have an id each', () => {
    const scenarios = draw('val', 200);
    for (const { message, order } of scenarios) expect(message).toContain(order);
    expect(new Set(scenarios.map(({ id }) => id)).size).toBe(200);
  });
});
