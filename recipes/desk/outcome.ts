import { relative } from 'node:path';
import type { Evaluation, TrainResult } from 'martingale';
import type { Comparison, Evaluated, NextCommand } from 'martingale/cli';
import type { DeskOptions } from './options.ts';

interface Finished {
  result: TrainResult;
  options: DeskOptions;
  runDirectory: string;
  /** Where this run's own service keeps its models; null for one that somebody else runs. */
  dataFolder: string | null;
}

const scoreOf = ({ reward, success }: Evaluation<unknown>) => ({
  reward: reward?.mean ?? 0,
  success: success?.mean ?? null,
});

const evaluated = (evaluation: Evaluation<unknown>): Evaluated => ({
  policy: evaluation.policy,
  score: scoreOf(evaluation),
  examples: evaluation.groups.flatMap((group) => group.trajectories.map((trajectory) => trajectory.toBody())),
});

/** Commands to go on with, as a person would type them. */
export function nextCommands({ result, options, dataFolder }: Finished): NextCommand[] {
  const { seed, steps, baseUrl } = options;
  const there = baseUrl === undefined ? '' : ` --base-url ${baseUrl}`;
  const again = (newSeed: number, newSteps: number) =>
    `npm start -- --seed ${newSeed} --steps ${newSteps}${there}`;
  const talk = `npx tsx recipes/desk/talk.ts --model ${result.model.name.replace(/:step\d+$/, '')}`;
  const key = 'MARTINGALE_API_KEY=desk ';
  const goOn = [
    { what: 'More steps:', command: again(seed, 2 * steps) },
    { what: 'Another seed:', command: again(seed + 1, steps) },
  ];
  if (dataFolder === null)
    return [...goOn, { what: 'Talk to the trained agent:', command: `${talk}${there}` }];
  return [
    ...goOn,
    {
      what: 'Serve the trained model:',
      command: `${key}npm run martingale -- serve --data ${relative('', dataFolder)}`,
    },
    { what: 'and, in another terminal, talk to the agent:', command: `${key}${talk}` },
  ];
}

/** What a person reads at the end; null where the run was stopped before both evaluations. */
export function comparisonOf(finished: Finished): Comparison | null {
  const { before, after } = finished.result.validation;
  if (before === null || after === null) return null;
  return {
    before: evaluated(before),
    after: evaluated(after),
    runDirectory: finished.runDirectory,
    next: nextCommands(finished),
  };
}

/** The last line of `--json`. */
export function summaryOf({ result, options, runDirectory }: Finished, seconds: number): object {
  const { before, after } = result.validation;
  return {
    type: 'summary',
    reason: result.reason,
    seed: options.seed,
    steps: result.reports.length,
    evaluation: { before: before && scoreOf(before), after: after && scoreOf(after) },
    books: result.books,
    model: result.model.name,
    seconds,
    trainingSeconds: result.seconds,
    runDirectory,
  };
}
