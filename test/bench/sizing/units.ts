import { type RealFigures, type RealRun, realRun, type TimedService } from './real-run.ts';

/** What one of each adds. A step is one training job and its log. */
export interface Units {
  token: number;
  call: number;
  rollout: number;
  group: number;
  step: number;
}

type Counts = Units;

/** Sampling and training take next to no time, so that only our own work is measured. */
const unmeasured: Omit<RealRun, 'groupsPerStep' | 'rolloutsPerGroup' | 'calls' | 'reply'> = {
  steps: 5,
  maxStaleness: 0,
  concurrency: 256,
  toolMs: 0,
  sampling: { gpus: 1, batch: 10_000, baseMs: 0.001, eachMs: 0 },
  training: { baseMs: 0, tokenMs: 0 },
};

const design = (groupsPerStep: number, rolloutsPerGroup: number, calls: number, tokens: number): RealRun => ({
  ...unmeasured,
  ...{ groupsPerStep, rolloutsPerGroup, calls },
  reply: { median: tokens, sigma: 0, most: tokens },
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
const held = { by: [0, 1], told: ['token', 'rollout'] } as const;

interface Quantity {
  of: (figures: RealFigures) => number;
  fit: { by: readonly number[]; told: readonly Name[] };
}

/** The measured quantities of a step, by what they are called on the page. CPU in milliseconds, the rest in bytes. */
const quantities = {
  'CPU of the harness while rollouts run, ms': {
    of: ({ cpu }) => median(cpu.map(({ rollouts }) => rollouts.harness)),
    fit: rough,
  },
  'CPU of the harness for the job, ms': {
    of: ({ cpu }) => median(cpu.map(({ job }) => job.harness)),
    fit: rough,
  },
  'CPU of the service while rollouts run, ms': {
    of: ({ cpu }) => median(cpu.map(({ rollouts }) => rollouts.service)),
    fit: rough,
  },
  'CPU of the service for the job, ms': {
    of: ({ cpu }) => median(cpu.map(({ job }) => job.service)),
    fit: rough,
  },
  'chats, to the service, bytes': { of: ({ wire }) => wire.chat.received, fit: exact },
  'chats, from the service, bytes': { of: ({ wire }) => wire.chat.sent, fit: exact },
  'groups, to the service, bytes': { of: ({ wire }) => wire.group.received, fit: exact },
  'training job, to the service, bytes': { of: ({ wire }) => wire.job.received, fit: exact },
  'log, to the service, bytes': { of: ({ wire }) => wire.log.received, fit: exact },
  "the run's folder, bytes": { of: ({ disk }) => disk.harness, fit: exact },
  "the service's data folder, bytes": { of: ({ disk }) => disk.service, fit: grown },
  'heap of the harness at the end of the rollouts, bytes': {
    of: (figures) => figures.held.harness,
    fit: held,
  },
} satisfies Record<string, Quantity>;

export type QuantityName = keyof typeof quantities;
export type MeasuredUnits = Record<QuantityName, Units>;

/** The sum of a step of the first design, to which single units are compared. */
const sumOf = (units: Units): number => {
  const counts = countsOf(designs[0]!);
  return names.reduce((sum, name) => sum + units[name] * counts[name], 0);
};

/** Whether a unit is too small for the measurement: below 2 % of such a step (of exact bytes: below 1), or below 0. */
export const isNoise = (quantity: string, units: Units, name: Name): boolean => {
  const isExact = Object.entries<Quantity>(quantities).some(
    ([other, { fit }]) => other === quantity && fit === exact,
  );
  return isExact ? units[name] < 1 : units[name] * countsOf(designs[0]!)[name] < 0.02 * sumOf(units);
};

/** Measures the unit costs of our parts: runs of the real harness and service that differ in one count at a time. */
export async function measureUnits(service: TimedService): Promise<MeasuredUnits> {
  // The code gets several times faster over its first thousand calls.
  await realRun(service, designs[2]!);
  const figures: RealFigures[] = [];
  for (const run of designs) {
    const plain = await realRun(service, run);
    if (!held.by.some((index) => designs[index] === run)) {
      figures.push(plain);
      continue;
    }
    // Four times as many, as what earlier runs left to collect would count.
    const many = { ...run, steps: 1, groupsPerStep: 4 * run.groupsPerStep };
    const { harness, service: ofService } = (await realRun(service, many, 'rollouts')).held;
    figures.push({ ...plain, held: { harness: harness / 4, service: ofService / 4 } });
  }
  const entries = Object.entries<Quantity>(quantities).map(([name, { of, fit }]) => [
    name,
    unitsOf(
      fit.by.map((index) => countsOf(designs[index]!)),
      fit.by.map((index) => of(figures[index]!)),
      fit.told,
    ),
  ]);
  return Object.fromEntries(entries);
}

/** Bytes of heap that each of so many rollouts takes in the harness and in the service while it waits for its call. */
export async function measureWaiting(service: TimedService, rollouts: number) {
  const run = design(rollouts / 8, 8, 1, 1);
  const waitMs = 12_000;
  const sampling = { ...run.sampling, baseMs: waitMs };
  const { held } = await realRun(
    service,
    { ...run, steps: 1, concurrency: rollouts, sampling },
    { afterMs: waitMs - 3_000 },
  );
  return { harness: held.harness / rollouts, service: held.service / rollouts };
}
