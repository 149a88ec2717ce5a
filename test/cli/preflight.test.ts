import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { generateText } from 'ai';
import { defineEnvironment } from 'martingale';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { loadEnvironmentFile } from '../../src/cli/preflight/environment-file.ts';
import { measurePace } from '../../src/cli/preflight/pace.ts';
import { tryShortcuts } from '../../src/cli/preflight/shortcuts.ts';
import { createEmbeddedEngine } from '../../src/engines/embedded/index.ts';
import type { Engine } from '../../src/engines/engine.ts';
import { parseScenarios } from '../../src/rollout/index.ts';
import { type RunningService, startService } from '../../src/service/index.ts';
import { command, output } from '../support/command.ts';
import { sharedFolder, temporaryFolder } from '../support/files.ts';
import { fromSource, root } from '../support/programs.ts';

const file = (name: string) => join(import.meta.dirname, 'environments', `${name}.ts`);

const parent = sharedFolder();
let engine: Engine;
let service: RunningService;
beforeAll(async () => {
  engine = await createEmbeddedEngine({ threads: 1 });
  service = await startService({ engine, dataFolder: join(parent, 'data') });
});
afterAll(async () => {
  await service?.close();
  await engine?.close();
});

/** A command about a file, with the tiny model of the service. */
const served = (name: string, environment: string, ...flags: string[]): string[] => {
  const { url, apiKey } = service;
  const model = ['--model', 'martingale-tiny', '--base-url', url, '--api-key', apiKey];
  return [name, file(environment), ...flags, ...model];
};

describe('martingale preflight', () => {
  it('tells signal, tokens, pace and what a run will need, with conversations', async () => {
    // With a service of the command.
    const own = [file('crossing'), '--rollouts', '6', '--sampled-price', '2'];
    const text = await output(['preflight', ...own]);
    expect(text).toMatch(/^reward \d.*\n {2}user {7}the light is/);
    expect(text).toMatch(/rollouts +18: 18 completed, 0 failed/);
    expect(text).toMatch(/pace +at least [\d.]+ rollouts a second/);
    expect(text).toMatch(/usual: 100 steps of 16 x 8 +12800 +\d+ +(\d+(\.\d)? s|[\d:]+) +[\d.]+/);
    expect(text).toMatch(/always the model's most frequent reply +0\.\d+/);
    const figures = JSON.parse(await output(served('preflight', 'crossing', '--rollouts', '6', '--json')));
    expect(figures).toMatchObject({ groups: 3, temperatures: [1], failures: [], counts: { completed: 18 } });
    const [small] = figures.costs;
    expect(small.sampledTokens).toBe(Math.round(small.rollouts * figures.sampledTokens));
    expect(small.cost).toBeNull();
  });

  it('warns of a reward that a shortcut earns, of failures, and of a temperature of 0', async () => {
    const { warnings, failures, groupsWithSignal, shortcuts } = JSON.parse(
      await output(served('preflight', 'gamed', '--scenarios', 'hard', '--json')),
    );
    expect(groupsWithSignal).toBe(0);
    expect(failures).toEqual([expect.objectContaining({ code: 'TypeError', count: 4 })]);
    expect(warnings.slice(0, 3)).toEqual([
      expect.stringContaining('4 of 8 rollouts failed'),
      expect.stringMatching(
        /No group has rewards that differ: nothing can be learned without a `teacher`\. Every rollout earns [\d.]+: check that the reward reads the reply/,
      ),
      expect.stringContaining('temperature 0'),
    ]);
    expect(warnings.at(-1)).toContain('the prompt repeated gets 56');
    expect(shortcuts.at(-1)).toEqual({
      name: 'the prompt repeated',
      reward: 56,
      completed: 1,
      rollouts: 2,
      outOfTime: false,
    });
  });

  it('warns of a reward that contradicts success, and tries the tool calls of the model', async () => {
    const { warnings, shortcuts, groupsAgainstSuccess } = JSON.parse(
      await output(served('preflight', 'wrong-field', '--rollouts', '8', '--json')),
    );
    expect(groupsAgainstSuccess).toBe(2);
    expect(warnings[0]).toContain('rollouts that fail earn more than rollouts that succeed');
    expect(
      shortcuts.map(({ name, completed }: { name: string; completed: number }) => [name, completed]),
    ).toContainEqual(["always the model's most frequent first call", 2]);
  });

  it('compares each seat with itself, and tells what a rollout of all seats needs', async () => {
    const figures = JSON.parse(await output(served('preflight', 'seats', '--rollouts', '4', '--json')));
    expect(figures).toMatchObject({ groups: 8, calls: 2, counts: { dispatched: 16, completed: 16 } });
    expect(figures.sampledTokens).toBeGreaterThanOrEqual(4);
  });

  it('shows nothing of an error that could command the terminal', async () => {
    const text = await output(served('preflight', 'gamed', '--scenarios', 'hard'));
    expect(text).toMatch(/x 4 TypeError: the database is away at .*gamed\.ts:17/);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: it must not be there.
    expect(text).not.toMatch(/\u001b/);
  });

  it.each([
    ['syntax.ts', 'import {', /syntax\.ts.* cannot be loaded: .*SyntaxError/s],
    ['package.ts', "import 'not-installed';", /package\.ts.*cannot be loaded: .*'not-installed'/s],
    ['data.json', '{}', /data\.json.*is not a module: name a \.ts or \.js file/],
  ])('says why %s cannot be loaded, without frames of the loader', async (name, content, message) => {
    const path = join(await temporaryFolder(), name);
    await writeFile(path, content);
    const program = [...fromSource, 'src/cli/main.ts', 'preflight', path];
    const { stderr, code } = await promisify(execFile)(process.execPath, program, { cwd: root }).then(
      (said) => ({ ...said, code: 0 }),
      (error) => error,
    );
    expect(stderr).toMatch(message);
    expect(stderr).not.toContain('node:internal');
    expect(code).toBe(1);
  });

  it('names the field of a scenario that does not fit, on one line', async () => {
    const { environment } = await loadEnvironmentFile(file('crossing'), { exportName: 'scenarios', most: 1 });
    const scenarios = [{ light: 'red' }, { light: 'blue' }];
    await expect(parseScenarios(environment, scenarios)).rejects.toThrow(
      /^Scenario 1 does not fit the schema of environment "crossing": `scenarios\[1\].light` is "blue": Invalid option.*"green"\.$/,
    );
  });

  it('names what a file lacks', async () => {
    const preflight = (...args: string[]) => output(['preflight', ...args]);
    await expect(preflight(file('absent'))).rejects.toThrow('absent.ts');
    await expect(preflight(file('gamed'))).rejects.toThrow('no scenarios in its export `scenarios`');
    await expect(preflight(join(root, 'test/support/by-two.ts'))).rejects.toThrow('exports no environment');
    await expect(
      preflight(file('crossing'), '--base-url', 'http://127.0.0.1:1', '--api-key', 'x'),
    ).rejects.toThrow('(--base-url or MARTINGALE_BASE_URL) needs --model');
  });
});

describe('a shortcut', () => {
  it('whose agent does not end is stopped at its time, and the others are tried', async () => {
    const environment = defineEnvironment({
      name: 'stuck',
      scenario: z.string(),
      rollout: async ({ scenario, model, signal }) => {
        const { text } = await generateText({
          model: model.languageModel,
          prompt: scenario,
          abortSignal: signal,
        });
        // As a library does that repeats calls whose reply it cannot use.
        if (text === '') await new Promise(() => undefined);
        return text;
      },
      rewards: { length: ({ outcome }) => outcome.length },
    });
    const said: string[] = [];
    const results = await tryShortcuts(
      [
        { name: 'empty', answer: () => '' },
        { name: 'yes', answer: () => 'yes' },
      ],
      {
        environment,
        scenarios: ['a', 'b'],
        limitMs: 300,
        onProgress: (name, { done, total }) => said.push(`${name} ${done}/${total}`),
        signal: new AbortController().signal,
      },
    );
    expect(results).toEqual([
      { name: 'empty', reward: null, completed: 0, rollouts: 2, outOfTime: true },
      { name: 'yes', reward: 3, completed: 2, rollouts: 2, outOfTime: false },
    ]);
    expect(said.filter((line) => line.endsWith('0/2'))).toEqual(['empty 0/2', 'yes 0/2']);
  });
});

describe('the pace', () => {
  const round = (completed: number, durationMs: number) => ({
    ...{ groups: [], sampledTokens: 0, durationMs },
    counts: { dispatched: 10, completed, failed: 10 - completed, cancelled: 0 },
  });
  const { signal } = new AbortController();

  it('is that of the fastest round, because the first one loads and compiles', async () => {
    const again = async () => round(10, 100);
    expect(await measurePace({ first: round(10, 1000), again, isFree: false, signal })).toBe(100);
  });

  it.each([
    ['took long', round(10, 10_000), 1],
    ['has no completed rollout', round(0, 10), 0],
  ])('is not measured again where the first round %s', async (_, first, pace) => {
    const again = () => Promise.reject(new Error('it ran again'));
    expect(await measurePace({ first, again, isFree: true, signal })).toBe(pace);
  });
});

describe('martingale eval', () => {
  it('says why rollouts failed, and exits with 1 if none completed', async () => {
    const failing = served('eval', 'gamed', '--scenarios', 'down');
    const { stdout, code } = await command(failing);
    expect(stdout).toMatch(/2 failed, 0 cancelled\nx 2 TypeError: the database is away at .*gamed\.ts/);
    expect(code).toBe(1);
    const lines = (await command([...failing, '--json'])).stdout.trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line).failures)).toEqual(
      Array(2).fill([expect.objectContaining({ code: 'TypeError', count: 1 })]),
    );
    expect((await command(served('preflight', 'gamed', '--scenarios', 'down', '--json'))).code).toBe(1);
  });

  it('names a model that is not there', async () => {
    const { stderr, code } = await command(['eval', file('crossing'), '--model', 'martingale-tny']);
    expect(stderr).toContain('Did you mean martingale-tiny?');
    expect(code).toBe(1);
  });

  it('prints a table, or a line for each scenario', async () => {
    expect(await output(served('eval', 'crossing'))).toMatch(/rollouts 3: 3 completed.*\nreward +0\.\d+ \[/);
    const flags = ['--count', '2', '--rollouts', '3', '--json'];
    const lines = (await output(served('eval', 'crossing', ...flags)))
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines.map(({ scenario, rollouts }) => [scenario.light, rollouts])).toEqual([
      ['red', 3],
      ['amber', 3],
    ]);
  });
});
