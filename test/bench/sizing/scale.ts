import { getHeapStatistics } from 'node:v8';
import { defaultBodyLimits } from '../../../src/service/bodies/bodies.ts';
import { atLeastZero, type Costs, free } from './check.ts';
import { type Held, type SimulatedFigures, type SimulatedRun, simulate } from './simulate.ts';
import type { MeasuredUnits } from './units.ts';

/** Rollouts in flight, and GPUs, of which one half samples and the other trains. */
export interface Size {
  inFlight: number;
  gpus: number;
}

export const sizes: readonly Size[] = [
  { inFlight: 256, gpus: 2 },
  { inFlight: 2000, gpus: 16 },
  { inFlight: 10_000, gpus: 64 },
];

/** Calls of the agent. */
const calls = 4;

/** A model of 8 billion parameters, an agent of four calls. What a GPU does is an input, from data sheets. */
export const runOf = ({ inFlight, gpus }: Size): Omit<SimulatedRun, 'harness' | 'service'> => ({
  steps: 8,
  rolloutsPerStep: inFlight / 2,
  rolloutsPerGroup: 8,
  maxStaleness: 3,
  concurrency: inFlight,
  calls,
  reply: { median: 400, sigma: 0.8, most: 8192 },
  toolMs: 2000,
  sampling: { gpus: gpus / 2, batch: 512, baseMs: 8, eachMs: 0.1 },
  training: { baseMs: 5000, tokenMs: 0.16 / (gpus / 2) },
});

export interface Part {
  part: string;
  /** What the GPUs would ask for if our parts took no time, and what there is of it. */
  demand: number;
  limit: number;
  unit: string;
}

export interface Scaled {
  size: Size;
  free: SimulatedFigures;
  /** With one process of harness and service each. */
  single: SimulatedFigures;
  /** With so many processes that each is busy for half of the time. */
  enough: { harness: number; service: number; figures: SimulatedFigures };
  parts: Part[];
}

const mainThreadOf = { harness: 'main thread of the harness', service: 'main thread of the service' };

interface Measured {
  units: MeasuredUnits;
  costs: Costs;
  waiting: { harness: number; service: number; queued: number };
}

/** Bytes of heap in the harness. All rollouts in flight count as waiting for a call. */
function heapOf(held: Held, { units, waiting }: Pick<Measured, 'units' | 'waiting'>): number {
  const unitsOf = (name: keyof MeasuredUnits) => ({
    token: atLeastZero(units[name].token),
    call: atLeastZero(units[name].call),
    rollout: atLeastZero(units[name].rollout),
  });
  const open = unitsOf('heap of the harness, of groups that are not complete, bytes');
  const arrived = unitsOf('heap of the harness, of groups that have arrived, bytes');
  return (
    waiting.queued * held.queued +
    waiting.harness * held.inFlight +
    open.rollout * held.ended +
    open.call * held.calls +
    open.token * held.tokens +
    (arrived.rollout + calls * arrived.call) * held.arrived +
    arrived.token * held.arrivedTokens
  );
}

function partsOf({ inFlight }: Size, run: SimulatedFigures, steps: number, measured: Measured): Part[] {
  const { units, costs, waiting } = measured;
  const seconds = run.totalMs / 1000;
  const perStep = { tokens: run.tokens / steps, rollouts: run.rollouts / steps, calls: run.calls / steps };
  const bytesOf = (...names: (keyof MeasuredUnits)[]) =>
    names.reduce((sum, name) => {
      const { token, call, rollout, group, step } = units[name];
      const { tokens, calls, rollouts } = perStep;
      return sum + token * tokens + call * calls + (rollout + group / 8) * rollouts + step;
    }, 0);
  const cores = ({ callMs, tokenMs, rolloutMs, step }: Costs['harness']) =>
    (callMs * run.calls +
      (tokenMs + step.tokenMs) * run.tokens +
      rolloutMs * run.rollouts +
      step.baseMs * steps) /
    run.totalMs;
  const mib = 2 ** 20;
  const heap = getHeapStatistics().heap_size_limit / mib;
  const stepsPerSecond = steps / seconds;
  const wire = bytesOf(
    'chats, to the service, bytes',
    'chats, from the service, bytes',
    'groups, to the service, bytes',
    'training job, to the service, bytes',
    'log, to the service, bytes',
  );
  const group = bytesOf('groups, to the service, bytes') / (perStep.rollouts / 8);
  const othersOf = (part: 'harness' | 'service') => {
    const { token, call, rollout, step } = units[`other threads of the ${part}, ms`];
    return (
      (token * perStep.tokens + call * perStep.calls + rollout * perStep.rollouts + step) *
      (stepsPerSecond / 1000)
    );
  };
  return [
    { part: mainThreadOf.harness, demand: cores(costs.harness), limit: 1, unit: 'core' },
    { part: 'other threads of the harness', demand: othersOf('harness'), limit: 1, unit: 'core' },
    { part: mainThreadOf.service, demand: cores(costs.service), limit: 1, unit: 'core' },
    { part: 'other threads of the service', demand: othersOf('service'), limit: 1, unit: 'core' },
    { part: 'body of a group', demand: group / mib, limit: defaultBodyLimits.preview / mib, unit: 'MiB' },
    {
      part: 'heap of the harness: the most at any time',
      demand: heapOf(run.held, measured) / mib,
      limit: heap,
      unit: 'MiB',
    },
    {
      part: 'heap of the service: all calls waiting',
      demand: (waiting.service * inFlight) / mib,
      limit: heap,
      unit: 'MiB',
    },
    { part: 'replies in flight', demand: inFlight, limit: 20_000, unit: 'replies' },
    {
      part: 'network between both',
      demand: (wire * stepsPerSecond * 8) / 1e6,
      limit: 10_000,
      unit: 'Mbit/s',
    },
    {
      part: 'disks of both, with the journal',
      demand:
        ((2 * bytesOf("the run's folder, bytes") + bytesOf("the service's data folder, bytes")) *
          stepsPerSecond) /
        1e6,
      limit: 500,
      unit: 'MB/s',
    },
  ];
}

/** Simulates a size without our parts, with one process each, and with as many as it needs. */
export function scale(size: Size, measured: Measured): Scaled {
  const run = runOf(size);
  const { harness, service } = measured.costs;
  const withProcesses = (ofHarness: number, ofService: number) =>
    simulate({
      ...run,
      harness: { ...harness, processes: ofHarness },
      service: { ...service, processes: ofService },
    });
  const unbound = simulate({ ...run, harness: free, service: free }, 0, (held) => heapOf(held, measured));
  const single = withProcesses(1, 1);
  const parts = partsOf(size, unbound, run.steps, measured);
  // A process that is busy for more than half of the time keeps others waiting.
  const neededOf = (part: string) => Math.ceil((parts.find((one) => one.part === part)?.demand ?? 0) / 0.5);
  const needed = { harness: neededOf(mainThreadOf.harness), service: neededOf(mainThreadOf.service) };
  const enough = { ...needed, figures: withProcesses(needed.harness, needed.service) };
  return { size, free: unbound, single, enough, parts };
}
