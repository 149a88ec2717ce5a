import type { CpuTimes } from './figures.ts';
import { type Both, type RealFigures, type RealRun, realRun, type TimedService } from './real-run.ts';

/** What one of each adds. A step is one training job and its log. */
export interface Units {
  token: number;
  call: number;
  rollout: number;
  group: number;
  step: number;
}

type Counts = Units;

/**
 * One group is in flight, and takes 40 ms whatever its replies. So all but the last group of a step are sent, received
 * and read while rollouts run, as in runs whose sampling takes its time, and what is counted for the job is of the job.
 */
const groupMs = 40;

const design = (groupsPerStep: number, rolloutsPerGroup: number, calls: number, tokens: number): RealRun => ({
  ...{ steps: 5, maxStaleness: 0, concurrency: rolloutsPerGroup, toolMs: 0 },
  ...{ groupsPerStep, rolloutsPerGroup, calls },
  reply: { median: tokens, sigma: 0, most: tokens },
  sampling: { gpus: 1, batch: 10_000, baseMs: groupMs / calls / tokens, eachMs: 0 },
  training: { baseMs: 0, tokenMs: 0 },
});

/** Each differs from the others in what no other does. */
const designs = [
  design(32, 8, 1, 16),
  design(32, 8, 1, 272),
  design(32, 8, 4, 16),
  design(8, 32, 1, 16),
  design(4, 8, 1, 16),
];

const countsOf = ({ groupsPerStep, rolloutsPerGroup, calls, reply }: RealRun): Counts => {
  const rollout = groupsPerStep * rolloutsPerGroup;
  return {
    token: rollout * calls * reply.median,
    call: rollout * calls,
    rollout,
    group: groupsPerStep,
    step: 1,
  };
};

const names = ['token', 'call', 'rollout', 'group', 'step'] as const;

type Name = (typeof names)[number];

/**
 * Solves for the units whose sums are the values: as many equations as units (Gauss and Jordan). Other units are 0.
 */
export function unitsOf(
  counts: readonly Counts[],
  values: readonly number[],
  told: readonly Name[] = names,
): Units {
  const rows = counts.map((count, index) => [...told.map((name) => count[name]), values[index] ?? 0]);
  for (let column = 0; column < told.length; column++) {
    const rest = rows.slice(column);
    const pivot = rest.reduce((most, row) =>
      Math.abs(row[column] ?? 0) > Math.abs(most[column] ?? 0) ? row : most,
    );
    rows.splice(rows.indexOf(pivot), 1);
    rows.splice(column, 0, pivot);
    const divisor = pivot[column] ?? 0;
    if (divisor === 0) throw new Error('The designs do not tell the units apart.');
    for (const [at, value] of pivot.entries()) pivot[at] = value / divisor;
    for (const row of rows) {
      if (row === pivot) continue;
      const factor = row[column] ?? 0;
      for (const [at, value] of row.entries()) row[at] = value - factor * (pivot[at] ?? 0);
    }
  }
  const units: Units = { token: 0, call: 0, rollout: 0, group: 0, step: 0 };
  for (const [index, name] of told.entries()) units[name] = rows[index]?.at(-1) ?? 0;
  return units;
}

const median = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1] ?? 0;

/** Designs and units that tell a quantity: bytes are exact, CPU time is not, and heaps and files grow in pieces. */
const exact = { by: [0, 1, 2, 3, 4], told: names } as const;
const rough = { by: [0, 1, 2, 4], told: ['token', 'call', 'rollout', 'step'] } as const;
const grown = { by: [0, 1, 4], told: ['token', 'rollout', 'step'] } as const;

interface Quantity {
  of: (figures: RealFigures) => number;
  fit: { by: readonly number[]; told: readonly Name[] };
}

const cpuOf = (
  part: keyof Both<CpuTimes>,
  threads: keyof CpuTimes,
  phase?: 'rollouts' | 'job',
): Quantity => ({
  of: ({ cpu }) =>
    median(
      cpu.map(({ rollouts, job }) =>
        phase ? { rollouts, job }[phase][part][threads] : rollouts[part][threads] + job[part][threads],
      ),
    ),
  fit: rough,
});

/** The measured quantities of a step, by what they are called on the page. CPU in milliseconds, the rest in bytes. */
const quantities = {
  'main thread of the harness while rollouts run, ms': cpuOf('harness', 'main', 'rollouts'),
  'main thread of the harness for the job, ms': cpuOf('harness', 'main', 'job'),
  'other threads of the harness, ms': cpuOf('harness', 'others'),
  'main thread of the service while rollouts run, ms': cpuOf('service', 'main', 'rollouts'),
  'main thread of the service for the job, ms': cpuOf('service', 'main', 'job'),
  'other threads of the service, ms': cpuOf('service', 'others'),
  'chats, to the service, bytes': { of: ({ wire }) => wire.chat.received, fit: exact },
  'chats, from the service, bytes': { of: ({ wire }) => wire.chat.sent, fit: exact },
  'groups, to the service, bytes': { of: ({ wire }) => wire.group.received, fit: exact },
  'training job, to the service, bytes': { of: ({ wire }) => wire.job.received, fit: exact },
  'log, to the service, bytes': { of: ({ wire }) => wire.log.received, fit: exact },
  "the run's folder, bytes": { of: ({ disk }) => disk.harness, fit: exact },
  "the service's data folder, bytes": { of: ({ disk }) => disk.service, fit: grown },
} satisfies Record<string, Quantity>;

/** Heap of the harness, of ended rollouts: while one of each group has not ended, and once their groups have arrived. */
const heaps = {
  'heap of the harness, of groups that are not complete, bytes': 'all but one',
  'heap of the harness, of groups that have arrived, bytes': 'requested',
} as const;

export type MeasuredUnits = Record<keyof typeof quantities | keyof typeof heaps, Units>;

/** The sum of a step of the first design, to which single units are compared. */
const sumOf = (units: Units): number => {
  const counts = countsOf(designs[0]!);
  return names.reduce((sum, name) => sum + units[name] * counts[name], 0);
};

/** Whether a unit is too small for the measurement: below 2 % of such a step (of bytes that are exact or of long replies: below 1), or below 0. */
export const isNoise = (quantity: string, units: Units, name: Name): boolean => {
  const isExact = Object.entries<Quantity>(quantities).some(
    ([other, { fit }]) => other === quantity && fit === exact,
  );
  if (quantity in heaps) return units[name] < 1;
  return isExact ? units[name] < 1 : units[name] * countsOf(designs[0]!)[name] < 0.02 * sumOf(units);
};

/** Measures the unit costs of our parts: runs of the real harness and service that differ in one count at a time. */
export async function measureUnits(service: TimedService): Promise<MeasuredUnits> {
  // The code gets several times faster over its first thousand calls.
  await realRun(service, designs[2]!);
  const figures: RealFigures[] = [];
  for (const run of designs) figures.push(await realRun(service, run));
  const measured = Object.entries<Quantity>(quantities).map(([name, { of, fit }]) => [
    name,
    unitsOf(
      fit.by.map((index) => countsOf(designs[index]!)),
      fit.by.map((index) => of(figures[index]!)),
      fit.told,
    ),
  ]);
  const held: [string, Units][] = [];
  for (const [name, moment] of Object.entries(heaps)) held.push([name, await measureHeap(service, moment)]);
  return Object.fromEntries([...measured, ...held]);
}

/** Heap at a moment of a run. A small run before it lets go what is left of the one before that. */
async function heldBy(service: TimedService, run: RealRun, after: 'all but one' | 'requested' | 'begun') {
  await realRun(service, design(1, 8, 1, 16));
  return (await realRun(service, run, { after, ms: 4_000 })).held;
}

/** Heap of the harness, from long replies, beside which what earlier runs left to collect is small. */
async function measureHeap(service: TimedService, after: 'all but one' | 'requested'): Promise<Units> {
  // Few connections, as those of rollouts in flight count with these.
  const waits = { steps: 1, concurrency: 64, training: { baseMs: 60_000, tokenMs: 0 } };
  // The longest first: what it leaves to collect makes the figures too large, not too small.
  const runs = [design(32, 32, 4, 1016), design(32, 32, 4, 16), design(32, 32, 1, 16)];
  const counts: Counts[] = [];
  const held: number[] = [];
  for (const run of runs) {
    held.push((await heldBy(service, { ...run, ...waits }, after)).harness);
    counts.push(countsOf({ ...run, rolloutsPerGroup: after === 'requested' ? 32 : 31 }));
  }
  return unitsOf(counts, held, ['token', 'call', 'rollout']);
}

/**
 * Bytes of heap of each of so many rollouts: in the harness and in the service while it waits for its first call, and in
 * the harness before it begins.
 */
export async function measureWaiting(service: TimedService, rollouts: number) {
  const run = design(rollouts / 8, 8, 1, 1);
  const waits = { ...run, steps: 1, sampling: { ...run.sampling, baseMs: 30_000 } };
  const heldOf = async (concurrency: number) => {
    const held = await heldBy(service, { ...waits, concurrency }, 'begun');
    return { harness: held.harness / rollouts, service: held.service / rollouts };
  };
  const { harness: queued } = await heldOf(8);
  return { ...(await heldOf(rollouts)), queued };
}
