import { type MartingaleError, sft } from 'martingale';
import { describe, expect, test } from 'vitest';
import { door } from '../../support/scripted-engine.ts';
import {
  afterwards,
  cutReply,
  cutRequest,
  instead,
  loseReply,
  loseReplyEarly,
  mute,
  reply,
  reset,
  silence,
} from './faults.ts';
import { type Fault, pass } from './proxy.ts';
import { createsJob, faultAt, startTrainingWorld } from './training-world.ts';

const json = { 'content-type': 'application/json' };
const html = { 'content-type': 'text/html' };
const rolloutsPerStep = 8;
const quick = { waitMs: 300 };
const patient = { waitMs: 20_000 };

/**
 * Silence lasts until the client gives up. That deadline holds for the calls of rollouts too: it leaves them time on a
 * busy machine, where one of 1 s lost rollouts.
 */
const impatientFor = (fault: Fault) =>
  fault === mute || fault === silence ? { client: { timeoutMs: 10_000 } } : {};

const caught = (promise: Promise<unknown>): Promise<MartingaleError> =>
  promise.then(
    () => Promise.reject(new Error('it did not fail')),
    (error) => error,
  );

describe('a training job whose answer is lost', () => {
  const losses: [string, Fault, ...tags: 'long'[]][] = [
    ['is cut off when the service has answered', loseReply],
    ['is cut off while the service is at work', loseReplyEarly],
    ['breaks off in the answer’s body', cutReply],
    ['is answered 502 with a page by a proxy', afterwards(reply('502 Bad Gateway', html, '<h1>502</h1>'))],
    ['is answered 503 by a proxy', afterwards(reply('503 Service Unavailable', html, 'upstream reset'))],
    ['is answered with half an id', afterwards(reply('200 OK', json, '{"id": "0000'))],
    ['is answered with nothing', afterwards(reply('200 OK', json, ''))],
    ['is never answered', mute, 'long'],
  ];

  for (const [loss, fault, ...tags] of losses)
    test(`${loss}: on a service without keys it is not requested again; its checkpoint is taken`, {
      tags,
    }, async () => {
      await using world = await startTrainingWorld({ knowsKeys: false, ...impatientFor(fault) });
      const asked = faultAt(world.proxy, fault, createsJob, 1);
      const { reason, finalStep, counts, reports } = await world.train({ lostJob: patient });
      expect([reason, finalStep, reports.length]).toEqual(['finished', 3, 3]);
      expect(counts).toMatchObject({ dispatched: 24, completed: 24 });
      expect(asked.met()).toBe(3);
      expect(world.engine.trainings).toBe(3);
      expect((await world.checkpoints()).at(-1)).toBe(3);
      expect(await world.jobRecord(1)).toMatchObject({
        lost: { why: expect.any(String) },
        outcome: { step: 2 },
      });
    });

  test('is awaited as long as it may run', { tags: ['long'] }, async () => {
    await using world = await startTrainingWorld({ knowsKeys: false });
    const training = door();
    world.engine.hold = (place) => (place === 'train' ? training.wait() : Promise.resolve());
    faultAt(world.proxy, loseReply, createsJob);
    const lookedAt = () =>
      world.proxy.seen.filter(({ method, path }) => method === 'GET' && path.endsWith('/checkpoints')).length;
    const run = world.train({ lostJob: patient, steps: 1 });
    await training.reached;
    const before = lookedAt();
    await expect.poll(lookedAt).toBeGreaterThan(before + 1);
    training.open();
    expect(await run).toMatchObject({ reason: 'finished', finalStep: 1 });
    expect(world.engine.trainings).toBe(1);
  });

  test('is returned by a service with keys under the same key', async () => {
    await using world = await startTrainingWorld({ knowsKeys: true });
    const asked = faultAt(world.proxy, loseReply, createsJob, 1);
    expect(await world.train()).toMatchObject({ reason: 'finished', finalStep: 3 });
    expect(asked.met()).toBe(4);
    expect(world.engine.trainings).toBe(3);
  });
});

describe('a training job without a trace', () => {
  const losses: [string, Fault, ...tags: 'long'[]][] = [
    ['whose request is cut in the middle', cutRequest],
    ['whose connection is reset', reset],
    ['that is swallowed in silence', silence, 'long'],
  ];

  for (const [loss, fault, ...tags] of losses)
    test(`${loss} stops the run with what was seen and what to do`, { tags }, async () => {
      await using world = await startTrainingWorld({ knowsKeys: false, ...impatientFor(fault) });
      const asked = faultAt(world.proxy, fault, createsJob, 1);
      const error = await caught(world.train({ lostJob: quick }));
      expect(error.code).toBe('training_job_unknown');
      for (const said of [
        'The training job of step 1',
        'POST /v1/preview/training-jobs',
        'local/network/coin:step1',
        'no checkpoint after step 1 appeared within 300 ms',
        "lostJob: { decision: 'ask_again' }",
        "lostJob: { decision: 'take_as_done' }",
      ])
        expect(error.message).toContain(said);
      expect(await world.jobRecord(1)).toMatchObject({ from: 1, lost: { isTold: true } });
      // Without a decision the run looks for it again and does not request it.
      const again = await caught(world.train({ resume: true, lostJob: quick }));
      expect(again.code).toBe('training_job_unknown');
      expect(asked.met()).toBe(2);
      expect(world.engine.trainings).toBe(1);

      // With a decision it requests it at once.
      const resumed = await world.train({
        resume: true,
        lostJob: { waitMs: 600_000, decision: 'ask_again' },
      });
      expect([resumed.reason, resumed.finalStep, resumed.reports.length]).toEqual(['finished', 3, 3]);
      expect(world.engine.trainings).toBe(3);
      expect(asked.met()).toBe(4);
      expect(resumed.counts).toMatchObject({ dispatched: 24, completed: 24 });
    });

  test('is skipped if that is decided, and the run continues from the newest checkpoint', {
    tags: ['long'],
  }, async () => {
    await using world = await startTrainingWorld({ knowsKeys: false });
    faultAt(world.proxy, reset, createsJob, 1);
    await caught(world.train({ lostJob: quick }));
    const decided = { waitMs: 600_000, decision: 'take_as_done' } as const;
    const { reason, finalStep, reports } = await world.train({ resume: true, lostJob: decided });
    expect([reason, finalStep, reports.length]).toEqual(['finished', 2, 3]);
    expect(world.engine.trainings).toBe(2);
    expect(await world.jobRecord(1)).toMatchObject({ outcome: { step: 1, gradientSteps: [] } });
  });

  test('whose checkpoint appears after the run has stopped is taken by the resumed run, whatever was decided', {
    tags: ['long'],
  }, async () => {
    await using world = await startTrainingWorld({ knowsKeys: false });
    const training = door();
    faultAt(world.proxy, loseReply, createsJob, 1);
    world.engine.hold = (place) =>
      place === 'train' && world.engine.trainings === 1 ? training.wait() : Promise.resolve();
    await caught(world.train({ lostJob: quick }));
    training.open();
    await expect.poll(() => world.checkpoints()).toContain(2);
    const resumed = await world.train({ resume: true, lostJob: { decision: 'ask_again' } });
    expect(resumed).toMatchObject({ reason: 'finished', finalStep: 3 });
    expect(world.engine.trainings).toBe(3);
  });

  test.each([
    ['the service was not reached', 'connection_failed'],
    ['it was turned away', 'rate_limited'],
  ])('because %s is asked for by the resumed run at once', async (_, code) => {
    await using world = await startTrainingWorld({ knowsKeys: false, client: { retries: 1 } });
    const isReached = code === 'rate_limited';
    let asked = 0;
    let answered = 0;
    world.proxy.fault = (request) => {
      if (!isReached && request.path.endsWith('/chat/completions'))
        return async (exchange) => {
          await pass(exchange);
          if (++answered === rolloutsPerStep) await world.proxy.shut();
        };
      if (!createsJob(request)) return pass;
      asked++;
      return asked > 2 || !isReached
        ? pass
        : instead(reply('429 Too Many Requests', json, '{"detail":"later"}'));
    };
    const error = await caught(world.train({ lostJob: { waitMs: 600_000 } }));
    expect(error.code).toBe(code);
    expect(await world.jobRecord(0)).toMatchObject({ isRefused: true });
    asked = 3;
    if (!isReached) await world.proxy.listen();
    const resumed = await world.train({ resume: true, lostJob: { waitMs: 600_000 } });
    expect(resumed).toMatchObject({ reason: 'finished', finalStep: 3 });
    expect(world.engine.trainings).toBe(3);
  });

  test('is requested again without a person if the options say so', { tags: ['long'] }, async () => {
    await using world = await startTrainingWorld({ knowsKeys: false });
    const asked = faultAt(world.proxy, reset, createsJob, 1);
    const lostJob = { waitMs: 100, decision: 'ask_again' } as const;
    expect(await world.train({ lostJob })).toMatchObject({ reason: 'finished', finalStep: 3 });
    expect([asked.met(), world.engine.trainings]).toEqual([4, 3]);
  });

  test('is requested at most three times', { tags: ['long'] }, async () => {
    await using world = await startTrainingWorld({ knowsKeys: false });
    let asked = 0;
    world.proxy.fault = (request) => {
      if (!createsJob(request))
        return async ({ ask, send }) => {
          for await (const piece of ask()) await send(piece);
        };
      asked++;
      return reset;
    };
    const error = await caught(world.train({ lostJob: { waitMs: 0, decision: 'ask_again' } }));
    expect([error.code, asked]).toEqual(['training_job_unknown', 3]);
  });

  test('is not mistaken for a checkpoint that somebody else has made', { tags: ['long'] }, async () => {
    await using world = await startTrainingWorld({ knowsKeys: false });
    const model = await world.open(world.direct);
    const examples = [
      {
        messages: [
          { role: 'user', content: 'hi' },
          { role: 'assistant', content: 'yes' },
        ],
      },
    ] as const;
    const other = () =>
      sft({ model, examples: examples.map(({ messages }) => ({ messages: [...messages] })) });
    const meddling: Fault = async ({ client }) => {
      await other();
      await other();
      client.destroy();
    };
    faultAt(world.proxy, meddling, createsJob);
    const error = await caught(world.train({ lostJob: { ...patient, decision: 'ask_again' } }));
    expect(error.code).toBe('training_job_unknown');
    expect(error.message).toContain('it has the checkpoints 2 and 1 after step 0, but a job makes only one');
    // The error does not recommend what would not help.
    expect(error.message).not.toContain('ask_again');
    expect(error.message).toContain('take_as_done');
  });
});

describe('a job that the service forgets while the run follows it', () => {
  const unknown = reply('404 Not Found', json, '{"detail":"There is no training job"}');
  const followsJob = ({ path }: { path: string }) => path.endsWith('/events');

  test.each([true, false])('has its checkpoint taken if it made one; keys known: %s', async (knowsKeys) => {
    await using world = await startTrainingWorld({ knowsKeys });
    // The job ends before its events are requested.
    faultAt(world.proxy, afterwards(unknown), followsJob, 1);
    expect(await world.train({ lostJob: patient })).toMatchObject({ reason: 'finished', finalStep: 3 });
    expect(world.engine.trainings).toBe(3);
  });

  test('is requested again under its key', async () => {
    await using world = await startTrainingWorld({ knowsKeys: true });
    const made = reply('200 OK', json, '{"id":"00000000-0000-4000-8000-000000000000"}');
    const asked = faultAt(world.proxy, instead(made), createsJob, 1);
    expect(await world.train()).toMatchObject({ reason: 'finished', finalStep: 3 });
    expect([asked.met(), world.engine.trainings]).toEqual([4, 3]);
  });

  test('stops the run if the service has no keys and shows no trace', async () => {
    await using world = await startTrainingWorld({ knowsKeys: false });
    const made = reply('200 OK', json, '{"id":"00000000-0000-4000-8000-000000000000"}');
    const asked = faultAt(world.proxy, instead(made), createsJob, 1);
    const error = await caught(world.train({ lostJob: quick }));
    expect(error.code).toBe('training_job_unknown');
    expect(error.message).toContain('404');
    expect(asked.met()).toBe(2);
  });

  test('is followed further when the service knows it again', { tags: ['long'] }, async () => {
    await using world = await startTrainingWorld({ knowsKeys: true });
    const training = door();
    world.engine.hold = (place) => (place === 'train' ? training.wait() : Promise.resolve());
    let followed = 0;
    faultAt(world.proxy, instead(unknown), (request) => {
      if (followsJob(request) && followed++ === 1) training.open();
      return followsJob(request);
    });
    expect(await world.train({ lostJob: patient, steps: 1 })).toMatchObject({
      reason: 'finished',
      finalStep: 1,
    });
    expect(world.engine.trainings).toBe(1);
  });
});

test('a job that was lost, found again and then failed is requested again by the resumed run', {
  tags: ['long'],
}, async () => {
  await using world = await startTrainingWorld({ knowsKeys: true });
  const training = door();
  world.engine.hold = (place) => (place === 'train' ? training.wait() : Promise.resolve());
  const unknown = reply('404 Not Found', json, '{"detail":"There is no training job"}');
  // Its events are unknown while the run follows it, and known when the run looks for it.
  faultAt(world.proxy, instead(unknown), ({ path }) => path.endsWith('/events'));
  let looked = 0;
  const answer = world.proxy.fault;
  world.proxy.fault = (request) => {
    if (request.path.endsWith('/events') && looked++ === 1) {
      world.engine.failTraining = new Error('the card is broken');
      training.open();
    }
    return answer(request);
  };
  const error = await caught(world.train({ lostJob: patient, steps: 1 }));
  expect(error.code).toBe('training_job_failed');
  world.engine.failTraining = null;
  world.proxy.fault = () => pass;
  expect(await world.train({ lostJob: patient, steps: 1, resume: true })).toMatchObject({
    reason: 'finished',
    finalStep: 1,
  });
  expect(world.engine.trainings).toBe(1);
});

describe('a supervised job on a service without keys', () => {
  const examples = [
    {
      messages: [
        { role: 'user' as const, content: 'hi' },
        { role: 'assistant' as const, content: 'yes' },
      ],
    },
  ];

  test('whose answer is lost is not requested again: its checkpoint is taken', async () => {
    await using world = await startTrainingWorld({ knowsKeys: false });
    const model = await world.open();
    const asked = faultAt(world.proxy, loseReply, createsJob);
    const trained = await sft({ model, examples, lostJob: patient });
    expect([trained.model.step, trained.gradientSteps]).toEqual([1, 0]);
    expect([asked.met(), world.engine.trainings]).toEqual([1, 1]);
  });

  test('whose existence is unknown is an error, and is requested again if the options say so', {
    tags: ['long'],
  }, async () => {
    await using world = await startTrainingWorld({ knowsKeys: false });
    const model = await world.open();
    faultAt(world.proxy, reset, createsJob);
    const error = await caught(sft({ model, examples, lostJob: quick }));
    expect(error.code).toBe('training_job_unknown');
    expect(error.message).toContain('The supervised training job');
    const asked = faultAt(world.proxy, reset, createsJob);
    const trained = await sft({ model, examples, lostJob: { waitMs: 0, decision: 'ask_again' } });
    expect([trained.model.step, asked.met(), world.engine.trainings]).toEqual([1, 2, 1]);
  });

  test('refuses an invalid option by name', async () => {
    await using world = await startTrainingWorld({ knowsKeys: false });
    const model = await world.open();
    const waiting = sft({ model, examples, lostJob: { waitMs: -1 } });
    await expect(waiting).rejects.toThrow('`lostJob.waitMs` is -1');
    const other: string = 'guess';
    const guessing = world.train({ lostJob: { decision: other as 'stop' } });
    await expect(guessing).rejects.toThrow('`lostJob.decision` is "guess"');
  });
});
