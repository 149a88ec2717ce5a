import { describe, expect, it } from 'vitest';
import { comparisonLines, mostInstructivePair } from '../../src/progress/comparison.ts';
import { displayWidth, paint } from '../../src/progress/text.ts';
import { conversation } from './events.ts';

const wrong = conversation('cancel order 4821', { answer: 'error not found', reply: 'sorry', reward: 0.25 });
const right = conversation('cancel order 4821', { tool: 'cancel', answer: 'status ok code 42' });
const other = conversation('track 1111', { reward: 0.5 });

const all = { scenarios: 256, scored: 256, failed: 0 };

const comparison = {
  before: {
    policy: 'a/b/c:step1',
    score: { reward: 0.331, success: 0.19 },
    ...all,
    examples: [other, wrong],
  },
  after: {
    policy: 'a/b/c:step9',
    score: { reward: 0.994, success: 0.992 },
    ...all,
    examples: [right, other],
  },
  runDirectory: 'runs/desk-1',
  next: [{ what: 'Another seed:', command: 'npm start -- --seed 2 --steps 250' }],
};

describe('comparison', () => {
  it('shows the scenario whose reward rose most', () => {
    expect(mostInstructivePair([other, wrong], [right, other])).toEqual({ before: wrong, after: right });
    expect(mostInstructivePair([wrong], [other])).toEqual({ before: wrong, after: other });
    expect(mostInstructivePair([], [other])).toBeUndefined();
  });

  it('shows scores, two conversations side by side, and next commands', () => {
    expect(comparisonLines(comparison, 87).map((line) => paint(line, false))).toEqual([
      'validation, greedy   before   after         ',
      '────────────────────────────────────────────',
      'reward                0.331   0.994   +0.663',
      'success                 19%     99%     +80%',
      '',
      'before                         reward 0.25 │ after                          reward 1.00',
      'user   cancel order 4821                   │ user   cancel order 4821',
      'agent  refund {"order":"4821"}             │ agent  cancel {"order":"4821"}',
      'tool   error not found                     │ tool   status ok code 42',
      'agent  sorry                               │ agent  done',
      '',
      'The record of the run:',
      '  runs/desk-1',
      'Another seed:',
      '  npm start -- --seed 2 --steps 250',
    ]);
  });

  it('shows how many scenarios have a score if rollouts failed', () => {
    const before = { ...comparison.before, scored: 110, failed: 146 };
    const lines = comparisonLines({ ...comparison, before }, 87).map((line) => paint(line, false));
    expect(lines[4]).toMatch(/^scenarios +110 of 256 +256 *$/);
    expect(lines[5]).toMatch(/^rollouts failed +146 +0 *$/);
  });

  it('shows differences that match the rounded numbers', () => {
    const score = { reward: 0.4521, success: 0.1523 };
    const all = { reward: 1, success: 1 };
    const { before, after } = comparison;
    const lines = comparisonLines(
      { ...comparison, before: { ...before, score }, after: { ...after, score: all } },
      87,
    ).map((line) => paint(line, false));
    expect(lines[2]).toMatch(/0\.452 +1\.000 +\+0\.548$/);
    expect(lines[3]).toMatch(/15% +100% +\+85%$/);
  });

  it('stacks conversations on a narrow terminal and never cuts a command', () => {
    const lines = comparisonLines(comparison, 30).map((line) => paint(line, false));
    expect(lines).toContain('before             reward 0.25');
    expect(lines).toContain('after              reward 1.00');
    // All but the commands, which are never cut.
    for (const line of lines.slice(0, -4)) expect(displayWidth(line)).toBeLessThanOrEqual(30);
    expect(lines.at(-1)).toContain('npm start -- --seed 2 --steps 250');
  });

  it('leaves out success if the environment has none', () => {
    const without = { policy: 'a/b/c', score: { reward: 0.5, success: null }, ...all, examples: [] };
    const text = comparisonLines({ ...comparison, before: without, after: without }, 80)
      .map((line) => paint(line, false))
      .join('\n');
    expect(text).not.toContain('success');
    expect(text).toContain('+0.000');
  });
});
