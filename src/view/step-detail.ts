import type { StepReport } from '../progress/index.ts';
import { readRun } from '../training/index.ts';
import { largestOf, smallestOf } from '../util/extremes.ts';
import { meanOrNull } from '../util/sums.ts';
import type { StepDetail, Timeline } from './api.ts';
import type { FoundRun } from './find-runs.ts';
import type { GroupFacts, GroupFile, RolloutFacts } from './group-file.ts';

/** The groups of a step or an evaluation, as found by the names of a run. */
export interface FoundGroups {
  run: FoundRun;
  which: string;
  /** Null for an evaluation. */
  step: number | null;
  file: GroupFile;
  /** All `:which` of the run, in order. */
  names: readonly string[];
}

const bins = 20;

export async function stepDetail({ run, which, step, file, names }: FoundGroups): Promise<StepDetail> {
  const at = names.indexOf(which);
  return {
    run: run.id,
    which,
    step,
    report: step === null ? null : await reportOf(run, step),
    bins: histogram(file.groups.flatMap(({ rollouts }) => rollouts.flatMap(({ reward }) => reward ?? []))),
    ...totalsOf(file.groups),
    groups: file.groups.map(({ group, title, scenario, seat, rollouts, hasSignal, isSolved, dropped }) => ({
      group,
      title,
      scenario,
      seat: seat && { name: seat.name, trains: seat.trains },
      rollouts: rollouts.map(({ rollout, status, reward, failure }) => ({
        rollout,
        status,
        reward,
        failure,
      })),
      hasSignal,
      isSolved,
      dropped,
    })),
    seats: [...new Set(file.groups.flatMap(({ seat }) => seat?.name ?? []))],
    failures: file.failures,
    previous: names[at - 1] ?? null,
    next: names[at + 1] ?? null,
    problems: file.problems,
  };
}

async function reportOf(run: FoundRun, step: number): Promise<StepReport | null> {
  const reports = await (await readRun(run.folder)).reports();
  return reports.find((report) => report.step === step) ?? null;
}

/** The counts and the mean reward of rollouts; the seats of a rollout are in as many groups. */
function totalsOf(groups: readonly GroupFacts[]): Pick<StepDetail, 'counts' | 'reward'> {
  const ended = new Map<string, RolloutFacts['status']>();
  const rewards: number[] = [];
  for (const { group, seat, rollouts } of groups)
    for (const { rollout, status, reward } of rollouts) {
      const key = `${seat ? Math.floor(group / seat.of) : group} ${rollout}`;
      if (status !== 'not_played' || !ended.has(key)) ended.set(key, status);
      if (reward !== null && (!seat || seat.isPolicy)) rewards.push(reward);
    }
  const all = [...ended.values()];
  const count = (...wanted: RolloutFacts['status'][]) =>
    all.filter((status) => wanted.includes(status)).length;
  return {
    counts: {
      dispatched: all.length,
      completed: count('completed', 'not_played'),
      failed: count('failed'),
      cancelled: count('cancelled'),
    },
    reward: meanOrNull(rewards),
  };
}

/** Bins of equal width over the values; one for each value where there are few different ones. */
function histogram(values: readonly number[]): StepDetail['bins'] {
  const different = [...new Set(values)].sort((a, b) => a - b);
  const [from, to] = [different[0], different.at(-1)];
  if (from === undefined || to === undefined) return [];
  if (different.length <= bins / 2)
    return different.map((value) => ({
      from: value,
      to: value,
      count: values.filter((one) => one === value).length,
    }));
  const width = (to - from) / bins;
  const counts = new Array<number>(bins).fill(0);
  for (const value of values) {
    const bin = Math.min(bins - 1, Math.floor((value - from) / width));
    counts[bin] = (counts[bin] ?? 0) + 1;
  }
  return counts.map((count, bin) => ({ from: from + bin * width, to: from + (bin + 1) * width, count }));
}

/** The rollouts as lanes, in the order they began, and what the trainer did meanwhile. */
export async function timelineOf({ run, which, step, file }: FoundGroups): Promise<Timeline> {
  const lanes = file.groups.flatMap(lanesOf);
  const start = smallestOf(lanes.map((lane) => lane.start));
  const none = { run: run.id, which, start: null, milliseconds: 0, lanes: [], trainer: [] };
  if (!Number.isFinite(start)) return none;
  const lanesEnd = largestOf(lanes.map(({ end }) => end)) - start;
  const trained = (await trainings(run)).map((stretch) => ({
    ...stretch,
    start: stretch.start - start,
    end: stretch.end - start,
  }));
  const length = Math.max(lanesEnd, ownTrainingEnd(trained, { step, lanesEnd }));
  const trainer = trained.map(({ name, start: from, end }) => ({ name, start: from, end }));
  return {
    run: run.id,
    which,
    start: new Date(start).toISOString(),
    milliseconds: length,
    lanes: lanes
      .map((lane) => ({ ...lane, start: lane.start - start, end: lane.end - start }))
      .sort((a, b) => a.start - b.start),
    // One that took less than a millisecond begins where it ends.
    trainer: trainer.filter(({ start: from, end }) => end > 0 && (from < length || end === length)),
  };
}

const lanesOf = ({ group, rollouts }: GroupFacts): Timeline['lanes'] =>
  rollouts.flatMap(({ rollout, status, reward, version, start, milliseconds, stretches }) =>
    start === null
      ? []
      : { group, rollout, status, reward, version, start, end: start + milliseconds, stretches },
  );

interface Training {
  name: 'training';
  step: number;
  start: number;
  end: number;
  isEnded: boolean;
}

/** A short step's training may begin much later than its rollouts took, as the machine does other work. */
const soonMs = 60_000;

/** When the step's own training ended, to show it too. One that began much later, after a stop of the run, does not count. */
const ownTrainingEnd = (
  trained: readonly Training[],
  { step, lanesEnd }: { step: number | null; lanesEnd: number },
): number =>
  largestOf(
    trained
      .filter(
        (one) =>
          one.step === step && one.isEnded && one.start >= 0 && one.start <= Math.max(2 * lanesEnd, soonMs),
      )
      .map(({ end }) => end),
    0,
  );

/** When training jobs ran, in milliseconds since 1970. */
async function trainings(run: FoundRun): Promise<Training[]> {
  const stretches: Training[] = [];
  const begun = new Map<number, number>();
  for await (const event of (await readRun(run.folder)).events()) {
    if (event.type !== 'job') continue;
    const time = Date.parse(event.time);
    const start = begun.get(event.step);
    if (event.status === 'submitted') begun.set(event.step, time);
    if (event.status === 'ended' && start !== undefined) {
      stretches.push({ name: 'training', step: event.step, start, end: time, isEnded: true });
      begun.delete(event.step);
    }
  }
  for (const [step, start] of begun)
    stretches.push({ name: 'training', step, start, end: Date.now(), isEnded: false });
  return stretches;
}
