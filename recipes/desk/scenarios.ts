import { deriveSeed } from 'martingale';
import { z } from 'zod';
import { Dice } from '../common/dice.ts';
import { type ToolName, toolNames } from './agent.ts';

/** A customer's request, and its right result. */
export const deskScenario = z.object({
  id: z.string(),
  message: z.string(),
  /** The tool that does what the customer wants. */
  tool: z.enum(toolNames),
  /** Four digits. */
  order: z.string(),
  /** Two digits: the code in the result of the right call. */
  code: z.string(),
  /** Whether the right call succeeds. */
  fine: z.boolean(),
});

export type DeskScenario = z.infer<typeof deskScenario>;

export type Split = 'train' | 'val';

const phrasings: Record<ToolName, readonly string[]> = {
  refund: ['refund order @', 'please refund @', 'i want my money back for @', 'money back on order @ please'],
  track: ['where is order @', 'track @ please', 'has order @ shipped yet', 'when does @ arrive'],
  cancel: ['cancel order @', 'please stop order @', 'i changed my mind about @', 'do not send @'],
};

const greetings = ['', 'hi, ', 'hello ', 'hey there, '] as const;

/** Order numbers whose digit sum is a multiple of ten are for validation. All digits occur in training. */
export const splitOf = (order: string): Split =>
  [...order].reduce((sum, digit) => sum + Number(digit), 0) % 10 === 0 ? 'val' : 'train';

function orderOf(split: Split, dice: Dice): string {
  for (;;) {
    const order = dice.digits(4);
    if (splitOf(order) === split) return order;
  }
}

export function drawScenario(split: Split, dice: Dice): Omit<DeskScenario, 'id'> {
  const tool = dice.pick(toolNames);
  const order = orderOf(split, dice);
  return {
    message: `${dice.pick(greetings)}${dice.pick(phrasings[tool]).replace('@', order)}`,
    tool,
    order,
    code: dice.digits(2),
    fine: dice.chance(0.5),
  };
}

/**
 * Random scenarios of a split: one of 3 tools, 4 phrasings and 4 greetings, an order number and a code. The splits share
 * phrasings but no order numbers. The same seed gives the same scenarios.
 */
export function deskScenarios({
  split,
  seed,
  count,
}: {
  split: Split;
  seed: number;
  count: number;
}): DeskScenario[] {
  const dice = new Dice(deriveSeed(seed, split === 'train' ? 0 : 1));
  return Array.from({ length: count }, (_, index) => ({
    id: `${split}-${index}`,
    ...drawScenario(split, dice),
  }));
}
