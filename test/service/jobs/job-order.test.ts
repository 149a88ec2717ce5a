import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ServiceError } from '../../../src/service/errors.ts';
import { JobOrder } from '../../../src/service/jobs/job-order.ts';
import type { WaitingJob } from '../../../src/service/store/store.ts';

const fault = new ServiceError(503, 'storage_failed', 'no');

/** Jobs named by their model and number, such as `a1`, in the order of their arrival. */
function queueOf(...names: string[]) {
  const waiting: WaitingJob[] = [];
  const add = (...more: string[]) => {
    for (const id of more)
      waiting.push({ id, modelId: id.charAt(0), sequence: Number(id.slice(1)), lostRuns: 0 });
  };
  add(...names);
  let now = 1000;
  const order = new JobOrder({
    newestAtStart: Math.max(0, ...waiting.map((job) => job.sequence)),
    now: () => now,
  });
  const first = () => waiting.filter((job) => waiting.find(({ modelId }) => modelId === job.modelId) === job);
  const next = () => order.next(first());
  return {
    order,
    add,
    next,
    elapse: (ms: number) => {
      now += ms;
    },
    lose: (id: string, lostRuns: number) => {
      const job = waiting.find((one) => one.id === id);
      if (job) job.lostRuns = lostRuns;
    },
    /** Runs a number of jobs to their ends and returns their names. */
    run: (count: number) => {
      const ran: string[] = [];
      for (let index = 0; index < count; index++) {
        const found = next();
        if (found.type !== 'run') return [...ran, found.type];
        ran.push(found.job.id);
        waiting.splice(waiting.indexOf(found.job), 1);
      }
      return ran;
    },
    fail: (engineDied = false) => {
      const found = next();
      if (found.type !== 'run') throw new Error(found.type);
      return { id: found.job.id, pauseMs: order.setAside(found.job, fault, { engineDied }), job: found.job };
    },
  };
}

describe('models', () => {
  test('take turns, the oldest job first, each with its jobs in order', () => {
    const { run } = queueOf('a1', 'a2', 'a3', 'b4', 'c5', 'b6');
    expect(run(7)).toEqual(['a1', 'b4', 'c5', 'a2', 'b6', 'a3', 'nothing']);
  });

  test('with one job at a time do not delay a model with many', () => {
    const { run, add } = queueOf('c1', 'c2', 'c3', 'a4', 'b5');
    const ran: string[] = [];
    for (let number = 6; number < 12; number++) {
      const [id = ''] = run(1);
      ran.push(id);
      if (!id.startsWith('c')) add(`${id.charAt(0)}${number}`);
    }
    expect(ran.map((id) => id.charAt(0)).join('')).toBe('cabcab');
  });

  test('keep the order of their jobs, and none waits longer than a turn of each', () => {
    const job = fc.constantFrom('a', 'b', 'c', 'd');
    fc.assert(
      fc.property(fc.array(job, { maxLength: 40 }), (models) => {
        const names = models.map((model, index) => `${model}${index}`);
        const ran = queueOf(...names).run(names.length);
        for (const model of 'abcd') {
          const ofModel = (ids: string[]) => ids.filter((id) => id.startsWith(model));
          expect(ofModel(ran)).toEqual(ofModel(names));
          const turns = ran.flatMap((id, index) => (id.startsWith(model) ? [index] : []));
          for (const [index, at] of turns.entries())
            expect(at - (turns[index - 1] ?? -1)).toBeLessThanOrEqual(4);
        }
      }),
      { seed: 5, numRuns: 200 },
    );
  });
});

describe('a deferred job', () => {
  test('lets other models continue, but not later jobs of its model', () => {
    const { run, fail } = queueOf('a1', 'a2', 'b3', 'b4');
    expect(fail()).toMatchObject({ id: 'a1', pauseMs: 250 });
    expect(run(3)).toEqual(['b3', 'b4', 'wait']);
  });

  test('returns after pauses that double up to 30 s', () => {
    const { next, fail, elapse, run } = queueOf('a1');
    const pauses: number[] = [];
    for (let tries = 0; tries < 9; tries++) {
      const { pauseMs } = fail();
      pauses.push(pauseMs);
      elapse(pauseMs - 1);
      expect(next()).toEqual({ type: 'wait', fault, pauseMs: 1 });
      elapse(1);
    }
    expect(pauses).toEqual([250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
    expect(run(2)).toEqual(['a1', 'nothing']);
  });

  test('returns in its turn among endless other jobs, and at once after tryNow', () => {
    const { run, fail, elapse, order } = queueOf('a1', 'b2', 'b3', 'b4', 'b5');
    fail();
    expect(run(1)).toEqual(['b2']);
    elapse(250);
    expect(fail()).toMatchObject({ id: 'a1', pauseMs: 500 });
    order.tryNow();
    expect(run(3)).toEqual(['b3', 'a1', 'b4']);
  });

  test('is forgotten when it ends: the next job of its model begins with the first pause', () => {
    const { run, fail, elapse } = queueOf('a1', 'a2');
    const { job } = fail(true);
    elapse(250);
    expect(run(1)).toEqual(['a1']);
    const next = fail(true);
    expect(next).toMatchObject({ id: 'a2', pauseMs: 250 });
    expect(job.id).toBe('a1');
  });

  test('is known with the number of engine crashes during it', () => {
    const { fail, elapse, order } = queueOf('a1');
    for (const engineDied of [true, false, true]) elapse(fail(engineDied).pauseMs);
    const { job } = fail();
    expect(order.engineDeaths(job)).toBe(2);
  });
});

describe('a job whose process died', () => {
  test('keeps its position twice, then lets pass the jobs that waited at the start', () => {
    const queue = queueOf('a1', 'a2', 'b3', 'b4', 'c5');
    queue.lose('a1', 1.25);
    queue.add('d6', 'd7');
    expect(queue.run(8)).toEqual(['b3', 'c5', 'd6', 'b4', 'a1', 'd7', 'a2', 'nothing']);
    const twice = queueOf('a1', 'b2');
    twice.lose('a1', 0.25);
    expect(twice.run(2)).toEqual(['a1', 'b2']);
  });

  test('does not wait for a deferred one', () => {
    const { run, fail, lose } = queueOf('a1', 'b2');
    lose('a1', 3);
    expect(fail().id).toBe('b2');
    expect(run(2)).toEqual(['a1', 'wait']);
  });
});
