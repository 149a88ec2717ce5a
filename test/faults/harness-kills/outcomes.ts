import { isDeepStrictEqual } from 'node:util';
import type { Ended, Runs } from './runs.ts';

const validation = { scenarios: [{ id: 8 }, { id: 9 }], everySteps: 1 };

const warmStart = {
  examples: ['one', 'two', 'three'].map((content) => ({
    messages: [
      { role: 'user', content },
      { role: 'assistant', content: `${content}!` },
    ],
  })),
  learningRate: [1e-3, 1e-4],
};

/** The runs that are killed. Each covers half of the kinds of step. */
export const kindsOfRun = [
  { mode: 'synchronous', half: 0, settings: { steps: 2, keepCheckpoints: 10, validation, warmStart } },
  {
    mode: 'pipelined',
    half: 1,
    settings: {
      steps: 3,
      seed: 5,
      maxStaleness: 2,
      concurrency: 4,
      keepCheckpoints: 1,
      validation,
      warmStart,
    },
  },
] as const;

/** Its groups go with jobs and logs, and no key makes a repeat of these harmless. */
export const runWithoutKeys = {
  mode: 'keyless',
  half: 1,
  settings: {
    ...kindsOfRun[0].settings,
    dialect: 'deployed',
    lostJob: { waitMs: 5000, decision: 'ask_again' },
  },
} as const;

/**
 * The warnings of a run without keys: that a log may be missing, because it does not send it twice, and that a job for
 * which the killed run had no answer is requested again.
 */
const warnings = /^\(node:\d+\) \[martingale_(log|job)_unknown\].*\n(\(Use .*\n)?/gm;

export type Outcome = Awaited<ReturnType<typeof outcomeOf>>;

/** The complete outcome of a run: the result of `train`, its folder, and the service's records of its model. */
export async function outcomeOf(runs: Runs, name: string, result: unknown) {
  const [record, files, counts] = [runs.record(name), runs.files(name), runs.counts(name)];
  return { result, record: await record, files: await files, counts: await counts };
}

/**
 * The outcome of a run that was killed; its errors, if it had any. What it warned of, or was killed after it had warned of,
 * may be missing from the log.
 */
export async function outcomeAfterKills(
  runs: Runs,
  name: string,
  { undisturbed, killed, ended }: { undisturbed: Outcome; killed: readonly Ended[]; ended: Ended },
) {
  const errors = ended.errors.replace(warnings, '');
  if (errors !== '') return errors;
  const outcome = await outcomeOf(runs, name, ended.result);
  const { logs } = undisturbed.counts;
  const isLogged = ([split, groups]: unknown[]) =>
    logs.some((all) => all[0] === split && Number(groups) <= Number(all[1]));
  const mayLack = [...killed, ended].some((one) => one.errors.includes('[martingale_log_unknown]'));
  if (mayLack && outcome.counts.logs.every(isLogged)) outcome.counts.logs = logs;
  return outcome;
}

/** Where two outcomes differ: the paths, with both values. */
export function differencesOf(is: unknown, was: unknown, path = ''): string[] {
  if (isDeepStrictEqual(is, was)) return [];
  const parts = [is, was].map((side) => (side instanceof Object ? Object.entries(side) : null));
  const [before, after] = parts;
  if (!before || !after)
    return [`${path}: ${JSON.stringify(is)?.slice(0, 500)}, not ${JSON.stringify(was)?.slice(0, 500)}`];
  const names = new Set([...before, ...after].map(([name]) => name));
  return [...names].flatMap((name) =>
    differencesOf(Reflect.get(Object(is), name), Reflect.get(Object(was), name), `${path}/${name}`),
  );
}
