import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runProgram } from '../support/programs.ts';

const file = (name: string) => join(import.meta.dirname, 'environments', `${name}.ts`);
const martingale = (...args: string[]) => runProgram('src/cli/main.ts', { args });

describe('martingale preflight', () => {
  it('tells signal, tokens, pace and what a run will need, with conversations', async () => {
    const text = await martingale('preflight', file('crossing'), '--rollouts', '6', '--sampled-price', '2');
    expect(text).toMatch(/^reward \d.*\n {2}user {7}the light is/);
    expect(text).toMatch(/rollouts +18: 18 completed, 0 failed/);
    expect(text).toMatch(/usual: 100 steps of 16 x 8 +12800 +\d+ +[\d.]+ +[\d.]+/);
    expect(text).toMatch(/always the model's most frequent reply +0\.\d+/);
    const figures = JSON.parse(await martingale('preflight', file('crossing'), '--rollouts', '6', '--json'));
    expect(figures).toMatchObject({ groups: 3, temperatures: [1], failures: [], counts: { completed: 18 } });
    const [small] = figures.costs;
    expect(small.sampledTokens).toBe(Math.round(small.rollouts * figures.sampledTokens));
    expect(small.cost).toBeNull();
  });

  it('warns of a reward that a shortcut earns, of failures, and of a temperature of 0', async () => {
    const { warnings, failures, groupsWithSignal, shortcuts } = JSON.parse(
      await martingale('preflight', file('gamed'), '--scenarios', 'hard', '--json'),
    );
    expect(groupsWithSignal).toBe(0);
    expect(failures).toEqual([expect.objectContaining({ code: 'TypeError', count: 4 })]);
    expect(warnings).toEqual([
      expect.stringContaining('4 of 8 rollouts failed'),
      expect.stringContaining('No group has rewards that differ'),
      expect.stringContaining('temperature 0'),
      expect.stringContaining('the prompt repeated gets 56'),
    ]);
    expect(shortcuts.at(-1)).toEqual({ name: 'the prompt repeated', reward: 56, completed: 1, rollouts: 2 });
  });

  it('warns of a reward that contradicts success, and tries the tool calls of the model', async () => {
    const { warnings, shortcuts, groupsAgainstSuccess } = JSON.parse(
      await martingale('preflight', file('wrong-field'), '--rollouts', '8', '--json'),
    );
    expect(groupsAgainstSuccess).toBe(2);
    expect(warnings[0]).toContain('rollouts without success earn more');
    expect(
      shortcuts.map(({ name, completed }: { name: string; completed: number }) => [name, completed]),
    ).toContainEqual(["always the model's most frequent first call", 2]);
  });

  it('compares each seat with itself, and tells what a rollout of all seats needs', async () => {
    const figures = JSON.parse(await martingale('preflight', file('seats'), '--rollouts', '4', '--json'));
    expect(figures).toMatchObject({ groups: 8, calls: 2, counts: { dispatched: 16, completed: 16 } });
    expect(figures.sampledTokens).toBeGreaterThanOrEqual(4);
  });

  it('shows nothing of an error that could command the terminal', async () => {
    const text = await martingale('preflight', file('gamed'), '--scenarios', 'hard');
    expect(text).toMatch(/x 4 TypeError: the database is away at .*gamed\.ts:17/);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: it must not be there.
    expect(text).not.toMatch(/\u001b/);
  });

  it('names what a file lacks', async () => {
    await expect(martingale('preflight', file('absent'))).rejects.toThrow('absent.ts');
    await expect(martingale('preflight', file('gamed'))).rejects.toThrow(
      'no scenarios in its export `scenarios`',
    );
    await expect(martingale('preflight', import.meta.filename)).rejects.toThrow(
      /exports no environment|bad_environment_file|vitest/i,
    );
    await expect(
      martingale('preflight', file('crossing'), '--base-url', 'http://127.0.0.1:1', '--api-key', 'x'),
    ).rejects.toThrow('--base-url needs --model');
  });
});

describe('martingale eval', () => {
  it('prints a table, or a line for each scenario', async () => {
    expect(await martingale('eval', file('crossing'))).toMatch(
      /rollouts 3: 3 completed.*\nreward +0\.\d+ \[/,
    );
    const lines = (await martingale('eval', file('crossing'), '--count', '2', '--rollouts', '3', '--json'))
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines.map(({ scenario, rollouts }) => [scenario.light, rollouts])).toEqual([
      ['red', 3],
      ['amber', 3],
    ]);
  });
});
