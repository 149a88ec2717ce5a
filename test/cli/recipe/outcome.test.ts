import { afterEach, describe, expect, it, vi } from 'vitest';
import { readOptions, recipeProgram } from '../../../src/cli/recipe/options.ts';
import { endedText, nextCommands, stoppedText } from '../../../src/cli/recipe/outcome.ts';
import { createClient } from '../../../src/client/index.ts';
import { ModelHandle, type TrainResult } from '../../../src/index.ts';
import { report } from '../../training/diagnosis/reports.ts';
import { recipe } from './recipe.ts';

const finished: TrainResult = {
  reason: 'finished',
  because: null,
  runDirectory: 'runs/one/training',
  model: new ModelHandle({
    client: createClient({ baseUrl: 'http://127.0.0.1:1', apiKey: 'key' }),
    name: 'local/desk/seed-1:step101',
  }),
  finalStep: 101,
  learners: {},
  best: null,
  reports: [],
  evaluations: [],
  counts: { dispatched: 0, completed: 0, failed: 0, cancelled: 0 },
  usage: { promptTokens: 0, sampledTokens: 0, cost: null },
  validation: { before: null, after: null },
  seconds: 1,
};

const commandsAfter = (flags: string[], dataFolder: string | null, result = finished) =>
  nextCommands({
    recipe,
    result,
    options: readOptions(
      ['node', 'train.ts', '--steps', '100', ...flags],
      recipeProgram({ ...recipe, takesLearningRate: true }),
    ),
    runDirectory: 'runs/one',
    dataFolder,
  }).map(({ command }) => command);

describe('the next commands', () => {
  afterEach(() => vi.unstubAllEnvs());

  it('train, serve and talk to the newest checkpoint', () => {
    expect(commandsAfter([], 'runs/one/service')).toEqual([
      'npm start -- --seed 1 --steps 200',
      'npm start -- --seed 2 --steps 100',
      'MARTINGALE_API_KEY=mine npm run martingale -- serve --data runs/one/service',
      'MARTINGALE_API_KEY=mine npx tsx recipes/desk/talk.ts --model local/desk/seed-1',
      'npm run martingale -- view runs/one',
    ]);
  });

  it('point to what the model said where no group had a signal', () => {
    const silent = report(0, { groupsWithSignal: 0 });
    const unlearned = { ...finished, reports: [silent] };
    expect(commandsAfter([], null, unlearned)[0]).toBe('runs/one/training/trajectories');
    const learned = { ...finished, reports: [silent, report(1, { groupsWithSignal: 1 })] };
    expect(commandsAfter([], null, learned)[0]).toContain('npm start');
  });

  it('repeat the checkpoint, also where the trained model is served', () => {
    const checkpoint = "--checkpoint './My models/Qwen3-0.6B' --lora-rank 8 --context 1024";
    const flags = ['--checkpoint', './My models/Qwen3-0.6B', '--lora-rank', '8', '--context', '1024'];
    expect(commandsAfter(flags, 'runs/one/service').slice(0, 3)).toEqual([
      `npm start -- --seed 1 --steps 200 ${checkpoint}`,
      `npm start -- --seed 2 --steps 100 ${checkpoint}`,
      `MARTINGALE_API_KEY=mine npm run martingale -- serve --data runs/one/service ${checkpoint}`,
    ]);
  });

  it('repeat the flags of the run and do not show its key', () => {
    vi.stubEnv('MARTINGALE_API_KEY', '');
    const flags = [
      '--groups',
      '4',
      '--base-model',
      'other',
      '--base-url',
      'http://host',
      '--api-key',
      'hush',
    ];
    expect(commandsAfter(flags, null)).toEqual([
      'npm start -- --seed 1 --steps 200 --groups 4 --base-model other --base-url http://host --api-key "$KEY"',
      'npm start -- --seed 2 --steps 100 --groups 4 --base-model other --base-url http://host --api-key "$KEY"',
      'npx tsx recipes/desk/talk.ts --model local/desk/seed-1 --base-url http://host --api-key "$KEY"',
      'npm run martingale -- view runs/one',
    ]);
    vi.stubEnv('MARTINGALE_API_KEY', 'hush');
    expect(commandsAfter(flags, null).join()).not.toContain('--api-key');
  });
});

describe('an interrupted run', () => {
  const run = (...flags: string[]) => ({
    recipe,
    options: readOptions(
      ['node', 'train.ts', ...flags],
      recipeProgram({ ...recipe, takesLearningRate: true }),
    ),
    runDirectory: 'runs/one',
  });

  it('shows its progress and the command that resumes it', () => {
    expect(stoppedText(run(), 0)).toMatch(/before its first step was done/);
    expect(stoppedText(run('--threads', '1', '--groups', '4'), 12)).toBe(
      'Stopped after 12 steps. Continue with:\n' +
        '  npm start -- --seed 1 --steps 120 --groups 4 --threads 1 --run-directory runs/one --resume',
    );
  });

  it('shows why it ended early', () => {
    const ended = { reason: 'budget', because: '900 of 800 tokens are used', reports: [] } as const;
    expect(endedText(run(), { ...ended, reports: [] })).toBe(
      'Ended after 0 steps: 900 of 800 tokens are used. Its record: runs/one',
    );
  });
});
