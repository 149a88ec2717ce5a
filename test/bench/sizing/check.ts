import { type RealRun, realRun, type TimedService } from './real-run.ts';
import { type ProcessCost, type SimulatedFigures, simulate } from './simulate.ts';
import type { MeasuredUnits } from './units.ts';

export interface Costs {
  harness: ProcessCost;
  service: ProcessCost;
}

/** Processes of ours that take no time. */
export const free: ProcessCost = {
  processes: 1,
  rolloutMs: 0,
  callMs: 0,
  tokenMs: 0,
  step: { baseMs: 0, tokenMs: 0 },
};

/** A cost that is too small to measure may come out below 0. */
export const atLeastZero = (value: number) => Math.max(0, value);

/** What the main thread of one process of each costs, with groups of 8. */
export function costsOf(units: MeasuredUnits): Costs {
  const costOf = (part: 'harness' | 'service', processes = 1): ProcessCost => {
    const running = units[`main thread of the ${part} while rollouts run, ms`];
    const job = units[`main thread of the ${part} for the job, ms`];
    return {
      processes,
      rolloutMs: atLeastZero(running.rollout + running.group / 8 + job.rollout + job.group / 8),
      callMs: atLeastZero(running.call + job.call),
      tokenMs: atLeastZero(running.token),
      step: { baseMs: atLeastZero(running.step + job.step), tokenMs: atLeastZero(job.token) },
    };
  };
  return { harness: costOf('harness'), service: costOf('service') };
}

export type Prediction = Pick<SimulatedFigures, 'stepMs' | 'inFlight' | 'staleness'>;

/** The mean over several seeds. `stepMs` is the time of the run by its steps. */
export function predict(run: RealRun, costs: Costs, seeds = 9): Prediction {
  const rolloutsPerStep = run.groupsPerStep * run.rolloutsPerGroup;
  const figures = Array.from({ length: seeds }, (_, seed) =>
    simulate({ ...run, rolloutsPerStep, ...costs }, seed),
  );
  const mean = (of: (one: SimulatedFigures) => number) =>
    figures.reduce((sum, one) => sum + of(one), 0) / figures.length;
  return {
    stepMs: mean(({ totalMs }) => totalMs / run.steps),
    inFlight: mean(({ inFlight }) => inFlight),
    staleness: mean(({ staleness }) => staleness),
  };
}

const shared = {
  steps: 8,
  groupsPerStep: 8,
  rolloutsPerGroup: 8,
  reply: { median: 40, sigma: 0.6, most: 300 },
  sampling: { gpus: 2, batch: 16, baseMs: 8, eachMs: 0.5 },
};

/** Runs that are both simulated and real: bound by sampling, by both phases in turn, by training, by tools. */
export const checkedRuns: Record<string, RealRun> = {
  'sampling and training in turn': {
    ...shared,
    ...{ maxStaleness: 0, concurrency: 64, calls: 1, toolMs: 0, training: { baseMs: 800, tokenMs: 0.05 } },
  },
  'staleness 1, batches full': {
    ...shared,
    ...{ maxStaleness: 1, concurrency: 128, calls: 1, toolMs: 0, training: { baseMs: 500, tokenMs: 0.05 } },
  },
  'staleness 2, slow training': {
    ...shared,
    ...{ maxStaleness: 2, concurrency: 192, calls: 1, toolMs: 0, training: { baseMs: 2500, tokenMs: 0.1 } },
  },
  'staleness 1, three calls with tools between, 48 in flight': {
    ...shared,
    ...{ steps: 6, maxStaleness: 1, concurrency: 48, calls: 3, toolMs: 500 },
    training: { baseMs: 500, tokenMs: 0.05 },
  },
};

/** Runs one of them, after its prediction. */
export async function checkRun(service: TimedService, run: RealRun, costs: Costs) {
  const predicted = predict(run, costs);
  const { stepMs, inFlight, staleness } = await realRun(service, run);
  return { predicted, measured: { stepMs, inFlight, staleness } satisfies Prediction };
}
