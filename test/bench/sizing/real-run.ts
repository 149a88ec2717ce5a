import { fork } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { generateText, type ModelMessage } from 'ai';
import { z } from 'zod';
import { defineEnvironment, train } from '../../../src/index.ts';
import { type CpuTimes, cpuTimes, diskBytes, heapBytes } from './figures.ts';
import type { ServiceFigures } from './service.ts';
import type { SimulatedRun } from './simulate.ts';
import type { SetTimes } from './timed-engine.ts';

/** What a real run has in common with a simulated one. */
export interface RealRun
  extends SetTimes,
    Pick<SimulatedRun, 'steps' | 'maxStaleness' | 'concurrency' | 'calls' | 'toolMs'> {
  groupsPerStep: number;
  rolloutsPerGroup: number;
}

/** Of the harness, which is this process, and of the service. */
export interface Both<Figure> {
  harness: Figure;
  service: Figure;
}

export interface RealFigures {
  stepMs: number;
  /** Rollouts in flight, mean over the time of the run. */
  inFlight: number;
  /** Mean number of training jobs between sampling and training, over the steps. */
  staleness: number;
  tokens: number;
  /** CPU time of each step, until its rollouts have ended and after that. Only true without staleness. */
  cpu: { rollouts: Both<CpuTimes>; job: Both<CpuTimes> }[];
  /** Bytes on disk and on the wire of one step, and of the heap when it was asked for. */
  disk: Both<number>;
  wire: ServiceFigures['wire'];
  held: Both<number>;
}

/** Starts a service with a timed engine in a process of its own. */
export async function startTimedService(times: SetTimes) {
  const path = fileURLToPath(new URL('./service.ts', import.meta.url));
  const child = fork(path, [JSON.stringify(times)], { execArgv: ['--no-warnings'] });
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`The service ended with ${code}.`);
  });
  ended.catch(() => undefined);
  const answer = async () => (await Promise.race([once(child, 'message'), ended]))[0];
  const { url, apiKey } = await answer();
  let last: Promise<unknown> = Promise.resolve();
  // One question at a time, as answers carry no number.
  const ask = <Answer>(message: SetTimes | 'figures' | 'cpu'): Promise<Answer> => {
    const asked = last.then(() => {
      const answered = answer();
      child.send(message);
      return answered;
    });
    last = asked;
    return asked;
  };
  return {
    url,
    apiKey,
    set: (set: SetTimes) => ask<ServiceFigures>(set),
    figures: () => ask<ServiceFigures>('figures'),
    cpu: () => ask<CpuTimes>('cpu'),
    [Symbol.asyncDispose]: async () => {
      const exited = once(child, 'exit');
      child.disconnect();
      await exited;
    },
  };
}

export type TimedService = Awaited<ReturnType<typeof startTimedService>>;

/** The mean over the time of a number that changes. */
class TimeMean {
  #value = 0;
  #area = 0;
  #begun = performance.now();
  #last = this.#begun;

  change(by: number): void {
    const now = performance.now();
    this.#area += this.#value * (now - this.#last);
    this.#last = now;
    this.#value += by;
  }

  get mean(): number {
    this.change(0);
    return this.#area / (this.#last - this.#begun);
  }
}

/**
 * An AI SDK agent of so many calls. Its reward is 1 if its last reply begins with a letter, which is chance.
 * @param straggles Whether the first rollout of each scenario waits before its first call.
 */
function agentOf({ calls, toolMs }: RealRun, inFlight: TimeMean, straggles: boolean, onBegun: () => void) {
  const begun = new Set<number>();
  return defineEnvironment({
    name: 'sizing',
    scenario: z.object({ id: z.number() }),
    rollout: async ({ model, signal, scenario }) => {
      inFlight.change(1);
      onBegun();
      try {
        const isFirst = !begun.has(scenario.id);
        begun.add(scenario.id);
        if (straggles && isFirst) await sleep(1e7, undefined, { signal });
        const messages: ModelMessage[] = [{ role: 'user', content: `Question ${scenario.id}: what is it?` }];
        for (let call = 1; ; call++) {
          const { text } = await generateText({ model: model.languageModel, messages, abortSignal: signal });
          if (call === calls) return text;
          messages.push({ role: 'assistant', content: text }, { role: 'user', content: 'And what else?' });
          if (toolMs > 0) await sleep(-toolMs * Math.log(1 - Math.random()), undefined, { signal });
        }
      } finally {
        inFlight.change(-1);
      }
    },
    rewards: { letter: ({ outcome }) => Number(outcome.trim() > '9') },
  });
}

/**
 * Trains through a service, with the times of a simulated run.
 * @param heap When to measure the heap: so many milliseconds after as many rollouts as may be in flight have begun, or all
 * but one of each group have ended, or the first job has been requested. The run ends then.
 */
export async function realRun(
  service: TimedService,
  run: RealRun,
  heap?: { after: 'begun' | 'all but one' | 'requested'; ms: number },
): Promise<RealFigures> {
  const before = await service.set({ reply: run.reply, sampling: run.sampling, training: run.training });
  const runDirectory = await mkdtemp(join(tmpdir(), 'martingale-sizing-run-'));
  const heapBefore = heapBytes();
  const marks: Promise<Both<CpuTimes>>[] = [];
  const mark = () => {
    const harness = cpuTimes();
    marks.push(service.cpu().then((times) => ({ harness, service: times })));
  };
  const held = { harness: 0, service: 0 };
  let holding: Promise<void> | undefined;
  const stop = new AbortController();
  const hold = () => {
    held.harness = heapBytes() - heapBefore;
    holding = service.figures().then((figures) => {
      held.service = figures.heapBytes - before.heapBytes;
      stop.abort();
    });
  };
  const inFlight = new TimeMean();
  let begun = 0;
  let rolloutsBegun = 0;
  const rollouts = run.groupsPerStep * run.rolloutsPerGroup;
  const holdAfter = (moment: NonNullable<typeof heap>['after']) => {
    if (heap?.after === moment) setTimeout(hold, heap.ms);
  };
  const total = { staleness: 0 };
  const { usage } = await train({
    environment: agentOf(run, inFlight, heap?.after === 'all but one', () => {
      if (++rolloutsBegun === Math.min(run.concurrency, rollouts)) holdAfter('begun');
    }),
    scenarios: Array.from({ length: 10_000 }, (_, id) => ({ id })),
    model: { project: 'sizing', name: `run-${randomUUID()}`, baseModel: 'scripted-tiny' },
    baseUrl: service.url,
    apiKey: service.apiKey,
    steps: run.steps,
    groupsPerStep: run.groupsPerStep,
    rolloutsPerGroup: run.rolloutsPerGroup,
    maxStaleness: run.maxStaleness,
    concurrency: run.concurrency,
    runDirectory,
    progress: false,
    signal: stop.signal,
    onEvent: (event) => {
      if (event.type === 'run_started') {
        begun = performance.now();
        mark();
      }
      if (event.type === 'rollouts' && event.done === rollouts - run.groupsPerStep) holdAfter('all but one');
      if (event.type === 'rollouts' && event.done === rollouts) {
        mark();
      }
      if (event.type === 'job' && event.status === 'submitted') holdAfter('requested');
      if (event.type !== 'step') return;
      total.staleness += event.staleness.mean;
      mark();
    },
  });
  const ms = performance.now() - begun;
  await holding;
  const after = await service.figures();
  const disk = {
    harness: (await diskBytes(runDirectory)) / run.steps,
    service: (after.diskBytes - before.diskBytes) / run.steps,
  };
  await rm(runDirectory, { recursive: true, force: true });
  const cpu = await Promise.all(marks);
  const between = (from: number, to: number): Both<CpuTimes> => {
    const differenceOf = (part: keyof Both<CpuTimes>, threads: keyof CpuTimes) =>
      (cpu[to]?.[part][threads] ?? 0) - (cpu[from]?.[part][threads] ?? 0);
    const timesOf = (part: keyof Both<CpuTimes>) => ({
      main: differenceOf(part, 'main'),
      others: differenceOf(part, 'others'),
    });
    return { harness: timesOf('harness'), service: timesOf('service') };
  };
  const perStep = (kind: keyof ServiceFigures['wire']) => ({
    received: (after.wire[kind].received - before.wire[kind].received) / run.steps,
    sent: (after.wire[kind].sent - before.wire[kind].sent) / run.steps,
  });
  return {
    stepMs: ms / run.steps,
    inFlight: inFlight.mean,
    staleness: total.staleness / run.steps,
    tokens: usage.sampledTokens,
    cpu: Array.from({ length: (cpu.length - 1) >> 1 }, (_, step) => ({
      rollouts: between(2 * step, 2 * step + 1),
      job: between(2 * step + 1, 2 * step + 2),
    })),
    disk,
    wire: {
      chat: perStep('chat'),
      group: perStep('group'),
      job: perStep('job'),
      log: perStep('log'),
      other: perStep('other'),
    },
    held,
  };
}
