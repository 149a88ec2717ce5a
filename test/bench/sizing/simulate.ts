import { Cores, Gpu, type GpuSpeed, Heap } from './queues.ts';

/** CPU milliseconds of one process of ours. */
export interface ProcessCost {
  processes: number;
  /** While rollouts run, which includes sending and reading their groups: of a rollout, of a call, of a sampled token. */
  rolloutMs: number;
  callMs: number;
  tokenMs: number;
  /** When they have ended, for the training job: of a step, and of a sampled token in it. */
  step: { baseMs: number; tokenMs: number };
}

/** A run to simulate: what it asks for, and what it runs on. */
export interface SimulatedRun {
  steps: number;
  rolloutsPerStep: number;
  rolloutsPerGroup: number;
  maxStaleness: number;
  /** Rollouts in flight at most. */
  concurrency: number;
  /** Model calls of a rollout. */
  calls: number;
  /** Tokens of a reply: log-normal, at most `most`. With `sigma` 0 every reply has `median` tokens. */
  reply: { median: number; sigma: number; most: number };
  /** Mean milliseconds between two calls of a rollout, such as of a tool; exponential. */
  toolMs: number;
  sampling: GpuSpeed & { gpus: number };
  /** Milliseconds of a training job: `baseMs + tokenMs * sampled tokens`. */
  training: { baseMs: number; tokenMs: number };
  harness: ProcessCost;
  service: ProcessCost;
}

/** What a harness holds at a time: rollouts, and sampled tokens. */
export interface Held {
  /** Rollouts of admitted steps that have not begun, and those that run. */
  queued: number;
  inFlight: number;
  /** Ended rollouts of groups with a rollout that still runs. */
  ended: number;
  /** Answered calls and tokens of these groups, also of the rollouts that run. */
  calls: number;
  tokens: number;
  /** Rollouts of ended groups that have not trained, and their tokens. */
  arrived: number;
  arrivedTokens: number;
}

export interface SimulatedFigures {
  /** Milliseconds from the end of a step to the end of the next, in the second half of the run. */
  stepMs: number;
  /** Of the whole run. */
  totalMs: number;
  /** Mean over the time of the run. */
  inFlight: number;
  /** Mean time of a rollout. */
  rolloutMs: number;
  rollouts: number;
  tokens: number;
  calls: number;
  /** What the harness holds when that weighs most. */
  held: Held;
  /** Mean number of training jobs between sampling and training, over the steps. */
  staleness: number;
  /** Share of the time in which each is busy. */
  busy: { gpus: number; training: number; harness: number; service: number };
}

/** Numbers from 0 to 1, the same for the same seed (mulberry32). */
export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The tokens of a reply, drawn with two random numbers (Box and Muller, Ann. Math. Stat. 1958). */
export function replyTokens({ median, sigma, most }: SimulatedRun['reply'], random: () => number): number {
  const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  return Math.max(1, Math.min(most, Math.round(median * Math.exp(sigma * normal))));
}

/**
 * Simulates a run event by event. A step is admitted when all but `maxStaleness` of the steps before it have trained,
 * as `StepQueue` does it; steps train one after the other, each when all its rollouts have ended. A call takes time of
 * the harness, then of the service, then of the GPU with the fewest replies; prompts cost the GPU nothing. A training job
 * begins when both have done their work for the step, which their processes share, and in which they do nothing else.
 * @param weigh What the harness holds, as a number. Default: the tokens.
 */
export function simulate(
  run: SimulatedRun,
  seed = 0,
  weigh = ({ tokens, arrivedTokens }: Held): number => tokens + arrivedTokens,
): SimulatedFigures {
  const random = randomNumbers(seed);
  const events = new Heap<() => void>();
  const gpus = Array.from({ length: run.sampling.gpus }, () => new Gpu<() => void>(run.sampling));
  const harness = new Cores(run.harness.processes);
  const service = new Cores(run.service.processes);
  const waiting: { step: number; index: number }[] = [];
  const left = Array.from({ length: run.steps }, () => run.rolloutsPerStep);
  const tokensOfStep = left.map(() => 0);
  /** By step and group: rollouts that have not ended, and tokens sampled so far. */
  const groups = left.map(() =>
    Array.from({ length: Math.ceil(run.rolloutsPerStep / run.rolloutsPerGroup) }, (_, index) => {
      const rollouts = Math.min(run.rolloutsPerGroup, run.rolloutsPerStep - index * run.rolloutsPerGroup);
      return { rollouts, left: rollouts, tokens: 0 };
    }),
  );
  const held: Held = { queued: 0, inFlight: 0, ended: 0, calls: 0, tokens: 0, arrived: 0, arrivedTokens: 0 };
  let most = { held: { ...held }, weight: 0 };
  const ends: number[] = [];
  const sums = { inFlight: 0, rollouts: 0, staleness: 0, training: 0, calls: 0, rolloutMs: 0 };
  let now = 0;
  let next = 0;
  let admitted = 0;
  let inFlight = 0;
  let isTraining = false;

  const groupOf = ({ step, index }: { step: number; index: number }) =>
    groups[step]![Math.floor(index / run.rolloutsPerGroup)]!;
  const hold = (more: Partial<Held>) => {
    held.calls += more.calls ?? 0;
    held.tokens += more.tokens ?? 0;
    held.ended += more.ended ?? 0;
    held.arrived += more.arrived ?? 0;
    held.arrivedTokens += more.arrivedTokens ?? 0;
    Object.assign(held, { queued: waiting.length - next, inFlight });
    const weight = weigh(held);
    if (weight > most.weight) most = { held: { ...held }, weight };
  };
  const admit = () => {
    for (; admitted < run.steps && admitted <= ends.length + run.maxStaleness; admitted++)
      for (let index = 0; index < run.rolloutsPerStep; index++) waiting.push({ step: admitted, index });
    begin();
  };
  const begin = () => {
    for (; inFlight < run.concurrency && next < waiting.length; next++) {
      inFlight++;
      call({ ...waiting[next]!, begun: now, left: run.calls });
    }
    hold({});
  };
  const call = (rollout: { step: number; index: number; begun: number; left: number }) => {
    const tokens = replyTokens(run.reply, random);
    tokensOfStep[rollout.step]! += tokens;
    sums.calls++;
    rollout.left--;
    const costOf = (cost: ProcessCost) =>
      cost.callMs + cost.tokenMs * tokens + (rollout.left === 0 ? cost.rolloutMs : 0);
    const sample = () => {
      const gpu = gpus.reduce((least, other) => (other.load < least.load ? other : least));
      gpu.add(now, tokens, () => {
        groupOf(rollout).tokens += tokens;
        hold({ calls: 1, tokens });
        if (rollout.left > 0) pause(rollout);
        else end(rollout);
      });
    };
    const serve = () => events.push(service.work(now, rollout.index, costOf(run.service)), sample);
    events.push(harness.work(now, rollout.index, costOf(run.harness)), serve);
  };
  const pause = (rollout: Parameters<typeof call>[0]) =>
    events.push(now - run.toolMs * Math.log(1 - random()), () => call(rollout));
  const end = (rollout: Parameters<typeof call>[0]) => {
    const { step, begun } = rollout;
    const group = groupOf(rollout);
    inFlight--;
    hold({ ended: 1 });
    if (--group.left === 0) {
      const { tokens, rollouts } = group;
      const left = { ended: -rollouts, calls: -rollouts * run.calls, tokens: -tokens };
      hold({ ...left, arrived: rollouts, arrivedTokens: tokens });
    }
    sums.rollouts++;
    sums.rolloutMs += now - begun;
    left[step]!--;
    begin();
    train();
  };
  const train = () => {
    const step = ends.length;
    if (isTraining || left[step] !== 0) return;
    isTraining = true;
    const ms = run.training.baseMs + run.training.tokenMs * tokensOfStep[step]!;
    const stepMs = (cost: ProcessCost) => cost.step.baseMs + cost.step.tokenMs * tokensOfStep[step]!;
    sums.training += ms;
    sums.staleness += step - Math.max(0, step - run.maxStaleness);
    const sent = harness.share(now, stepMs(run.harness));
    events.push(ms + service.share(sent, stepMs(run.service)), () => {
      isTraining = false;
      ends.push(now);
      hold({ arrived: -run.rolloutsPerStep, arrivedTokens: -tokensOfStep[step]! });
      admit();
      train();
    });
  };

  admit();
  while (ends.length < run.steps) {
    let gpu: Gpu<() => void> | undefined;
    let at = events.least;
    for (const other of gpus) {
      const { nextEnd } = other;
      if (nextEnd < at) [gpu, at] = [other, nextEnd];
    }
    if (at === Number.POSITIVE_INFINITY) throw new Error('The simulated run waits for nothing.');
    sums.inFlight += inFlight * (at - now);
    now = at;
    if (gpu) for (const ended of gpu.take(now)) ended();
    else events.pop()?.();
  }
  const half = run.steps >> 1;
  return {
    stepMs: (now - (ends[half - 1] ?? 0)) / (run.steps - half),
    totalMs: now,
    inFlight: sums.inFlight / now,
    rolloutMs: sums.rolloutMs / sums.rollouts,
    rollouts: sums.rollouts,
    tokens: tokensOfStep.reduce((sum, tokens) => sum + tokens, 0),
    calls: sums.calls,
    held: most.held,
    staleness: sums.staleness / run.steps,
    busy: {
      gpus: gpus.reduce((sum, { busyMs }) => sum + busyMs, 0) / now / gpus.length,
      training: sums.training / now,
      harness: harness.utilisation(now),
      service: service.utilisation(now),
    },
  };
}
