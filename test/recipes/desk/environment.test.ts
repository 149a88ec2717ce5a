import { describe, expect, it } from 'vitest';
import { checkOutcome, openDesk } from '../../../recipes/desk/environment.ts';

const order = { tool: 'cancel', order: '4821', code: '17', fine: false } as const;
const rightCall = { tool: 'cancel', order: '4821' } as const;
const rightAnswer = { verdict: 'sorry', code: '17' } as const;
const points = (outcome: Parameters<typeof checkOutcome>[1]) =>
  Object.values(checkOutcome(order, outcome)).filter(Boolean).length / 4;

describe('the desk', () => {
  it('answers the right tool on the right order, and nothing else', () => {
    const { answer } = openDesk(order);
    expect(answer('cancel', '4821')).toBe('status denied code 17');
    expect(openDesk({ ...order, fine: true }).answer('cancel', '4821')).toBe('status ok code 17');
    expect(answer('refund', '4821')).toBe('error not found');
    expect(answer('cancel', '4820')).toBe('error not found');
  });
});

describe('the rewards of the desk', () => {
  it('give a quarter for each of tool, order, verdict and code', () => {
    expect(points({ calls: [rightCall], answer: rightAnswer })).toBe(1);
    expect(points({ calls: [rightCall], answer: { verdict: 'done', code: '17' } })).toBe(0.75);
    expect(points({ calls: [rightCall], answer: { verdict: 'sorry', code: '18' } })).toBe(0.75);
    expect(points({ calls: [rightCall], answer: null })).toBe(0.5);
  });

  it('give nothing for an answer after a wrong call', () => {
    expect(points({ calls: [{ ...rightCall, tool: 'refund' }], answer: rightAnswer })).toBe(0.25);
    expect(points({ calls: [{ ...rightCall, order: '4812' }], answer: rightAnswer })).toBe(0.25);
  });

  it('give nothing for an answer out of the air, even a lucky one', () => {
    expect(points({ calls: [], answer: rightAnswer })).toBe(0);
  });

  it('count the first call alone, and no success after a second', () => {
    const wrong = { tool: 'refund', order: '4821' } as const;
    expect(points({ calls: [wrong, rightCall], answer: rightAnswer })).toBe(0.25);
    expect(points({ calls: [rightCall, wrong], answer: rightAnswer })).toBe(0.5);
  });
});
