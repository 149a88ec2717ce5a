import { randomUUID } from 'node:crypto';
import { tool } from 'ai';
import { defineEnvironment, type Environment } from 'martingale';
import { type ServeEnvironmentOptions, type SessionProblem, serveEnvironment } from 'martingale/environments';
import { describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { RawClient } from './client.ts';
import { guess, type Journal, safe } from './environments.ts';

type Options = Omit<ServeEnvironmentOptions<z.ZodType>, 'environment' | 'scenarios'>;

async function serve(
  environment: Environment,
  scenarios: readonly unknown[],
  { headers = {}, ...options }: Options & { headers?: Record<string, string> } = {},
) {
  const server = await serveEnvironment({ environment, scenarios: { train: scenarios }, ...options });
  onTestFinished(() => server.close());
  return { server, client: new RawClient(server.url, { 'x-api-key': server.apiKey, ...headers }) };
}

const newJournal = (): Journal => ({ opened: [], closed: [] });
const codes = [{ code: 3 }, { code: 7 }];

/** An environment with one tool, which runs `work`. */
const working = (
  work: (input: object) => unknown,
  pieces: { prompt?: () => string; setup?: () => unknown; milliseconds?: number; cleanup?: () => void } = {},
  reward: () => number = () => 1,
) =>
  defineEnvironment({
    name: 'working',
    scenario: z.object({}),
    ...(pieces.milliseconds === undefined ? {} : { limits: { milliseconds: pieces.milliseconds } }),
    setup: pieces.setup ?? (() => null),
    prompt: pieces.prompt ?? (() => 'Work.'),
    tools: { work: tool({ inputSchema: z.looseObject({}), execute: (input) => work(input) }) },
    onToolError: 'fail',
    cleanup: pieces.cleanup ?? (() => undefined),
    rewards: { done: reward },
  });

const success = (output: object) => ({ ok: true, output: expect.objectContaining(output) });

describe('serveEnvironment', () => {
  it('plays an episode: prompt, tools, calls with their rewards, and the rest at the end', async () => {
    const journal = newJournal();
    const { client } = await serve(safe(journal), codes);
    const session = await client.begin();
    expect((await client.answer('/safe/prompt', { session }))[1]).toMatchObject([
      { text: '[system]', detail: { role: 'system' } },
      { text: 'Open the safe.' },
      { text: '[user]' },
      { text: 'Its code is below 5.' },
    ]);
    expect((await client.answer('/safe/task_tools', { session }))[1]).toMatchObject({
      tools: [
        { name: 'dial', description: 'Dials a digit.', input_schema: { required: ['digit'] } },
        { name: 'kick' },
      ],
      terminal_tool: { name: 'reply', arg: 'text' },
    });
    expect(await client.call(session, 'dial', { digit: 5 })).toEqual(
      success({ blocks: [{ type: 'text', text: 'lower' }], reward: -0.1, finished: false }),
    );
    // The model reads what a tool has thrown, as in a rollout here.
    expect(await client.call(session, 'kick')).toEqual(
      success({ blocks: [{ type: 'text', text: 'Error: That hurts.' }], reward: null }),
    );
    expect(await client.call(session, 'dial', { digit: 12 })).toMatchObject({
      ok: false,
      reason: 'input_validation',
      error: expect.stringContaining('digit'),
    });
    expect(await client.call(session, 'pick')).toMatchObject({ ok: false, reason: 'not_found' });
    expect(await client.call(session, 'reply', { words: 'x' })).toMatchObject({
      ok: false,
      reason: 'input_validation',
    });
    expect(await client.call(session, 'dial', { digit: 3 })).toMatchObject({
      ok: true,
      output: {
        blocks: [{ type: 'text', text: '{"open":true}' }],
        // success, 0.5 of quick after five replies
        reward: expect.closeTo(1 + 0.5 / 5, 10),
        finished: true,
        metadata: { stop_reason: 'open', metrics: { success: 1, tool_errors: 1 } },
      },
    });
    expect(await client.call(session, 'dial', { digit: 3 })).toMatchObject({ reason: 'episode_finished' });
    expect(journal).toEqual({ opened: [3], closed: [3] });
    await client.answer('/delete', { session, body: {} });
    expect(await client.answer('/safe/prompt', { session })).toEqual([
      404,
      expect.stringContaining('Active environment not found'),
    ]);
    expect(journal.closed).toEqual([3]);
  });

  it('ends at the limit of turns with the reward, and at that of time with a call that is not run', async () => {
    const { client } = await serve(safe(newJournal(), 2), codes);
    const session = await client.begin();
    await client.call(session, 'dial', { digit: 1 });
    expect(await client.call(session, 'dial', { digit: 2 })).toMatchObject({
      output: { blocks: [{ text: 'higher' }], finished: true, metadata: { stop_reason: 'turn_limit' } },
    });

    let runs = 0;
    const ended = Promise.withResolvers<void>();
    const late = await serve(
      working(() => ++runs, { milliseconds: 2000, cleanup: () => ended.resolve() }),
      [{}],
    );
    const slow = await late.client.begin();
    await late.client.call(slow, 'work');
    await ended.promise;
    expect(await late.client.call(slow, 'work')).toMatchObject({
      output: {
        blocks: [{ text: 'The episode has ended (time_limit): "work" was not run.' }],
        finished: true,
        reward: 1,
      },
    });
    expect(runs).toBe(1);
  });

  it('lists the tool for words as one of the model where `observe` answers words', async () => {
    const { client } = await serve(guess, [{ secret: 4 }]);
    expect((await client.answer('/tools'))[1]).toMatchObject({
      tools: [{ name: 'reply', input_schema: { required: ['text'] } }],
      terminal_tool: { name: 'reply', arg: 'text' },
    });
    const session = await client.begin();
    expect(await client.call(session, 'reply', { text: '2' })).toEqual(
      success({ blocks: [{ type: 'text', text: 'higher' }], finished: false }),
    );
    expect(await client.call(session, 'reply', { text: '4' })).toEqual(
      success({ blocks: [], reward: 0.5, finished: true }),
    );
  });

  it.for(['a tool', 'a reward', 'a setup', 'a prompt'])(
    'tells of %s that throws, and gives no reward',
    async (what) => {
      const fail = (): never => {
        throw new Error('the shelf is empty');
      };
      const closed: string[] = [];
      const environment = working(
        what === 'a tool' ? fail : () => 'done',
        {
          ...(what === 'a setup' ? { setup: fail } : {}),
          ...(what === 'a prompt' ? { prompt: fail } : {}),
          cleanup: () => void closed.push(what),
        },
        what === 'a reward' ? fail : () => 1,
      );
      const problems: SessionProblem[] = [];
      const { client } = await serve(environment, [{}], { onProblem: (problem) => problems.push(problem) });
      const session = await client.begin();
      if (what === 'a setup' || what === 'a prompt')
        for (const path of ['/prompt', '/task_tools', '/messages'])
          expect(await client.answer(path, { session })).toEqual([
            500,
            expect.stringContaining('the shelf is empty'),
          ]);
      else {
        const name = what === 'a tool' ? 'work' : 'reply';
        expect(await client.call(session, name, { text: 'x' })).toContain('the shelf is empty');
        expect(await client.call(session, 'work')).toContain('the shelf is empty');
      }
      await client.answer('/delete', { session, body: {} });
      expect(closed).toEqual(what === 'a setup' ? [] : [what]);
      expect(problems).toEqual([
        { event: 'session_failed', session, message: expect.stringContaining('the shelf is empty') },
      ]);
    },
  );

  it('runs a call once whose connection is cut, and gives its result to who asks by its id', async () => {
    let runs = 0;
    const started = Promise.withResolvers<void>();
    const go = Promise.withResolvers<string>();
    const { client } = await serve(
      working(() => {
        runs++;
        started.resolve();
        return go.promise;
      }),
      [{}],
    );
    const session = await client.begin();
    const cut = new AbortController();
    const events = client.events(session, { name: 'work', input: {} }, cut.signal);
    const { value } = await events.next();
    await started.promise;
    cut.abort();
    await expect(events.next()).rejects.toThrow();
    const call = { name: 'work', input: {}, task_id: value?.data };
    const [again, twice] = [client.result(session, call), client.result(session, call)];
    go.resolve('  worked 🎲'.repeat(2000));
    const worked = success({ blocks: [{ type: 'text', text: '  worked 🎲'.repeat(2000) }] });
    expect(await Promise.all([again, twice, client.result(session, call)])).toEqual([worked, worked, worked]);
    expect(runs).toBe(1);
    expect(await client.result(session, { ...call, task_id: 'absent' })).toBe('unknown task_id');
  });

  it('runs calls of one session one after the other', async () => {
    let [running, most] = [0, 0];
    const { client } = await serve(
      working(async () => {
        most = Math.max(most, ++running);
        await new Promise(setImmediate);
        running--;
        return most;
      }),
      [{}],
    );
    const session = await client.begin();
    await Promise.all(Array.from({ length: 8 }, () => client.call(session, 'work')));
    expect(most).toBe(1);
  });

  it('ends a call whose session is deleted, and cleans up once', async () => {
    const started = Promise.withResolvers<void>();
    let cleanups = 0;
    const environment = working(
      () => {
        started.resolve();
        return new Promise(() => undefined);
      },
      { cleanup: () => void cleanups++ },
    );
    const { client } = await serve(environment, [{}]);
    const session = await client.begin();
    const result = client.call(session, 'work');
    await started.promise;
    const deleted = () => client.answer('/delete', { session, body: {} });
    await Promise.all([deleted(), deleted()]);
    expect(await result).toContain('the session was deleted');
    expect(cleanups).toBe(1);
  });

  it('deletes a session that is idle, but not one that is pinged', async () => {
    const journal = newJournal();
    const { client } = await serve(safe(journal), codes, { idleTimeoutMs: 1000 });
    const [idle, used] = [await client.begin(0), await client.begin(1)];
    const ping = (session: string) => client.answer('/ping', { session, body: {} });
    while (!journal.closed.includes(3)) expect(await ping(used)).toEqual([200, { status: 'ok' }]);
    expect((await ping(idle))[0]).toBe(404);
    expect(journal.closed).toEqual([3]);
  });

  it('does not delete a session whose call runs, however long', async () => {
    const started = Promise.withResolvers<void>();
    const go = Promise.withResolvers<string>();
    let cleanups = 0;
    const work = () => {
      started.resolve();
      return go.promise;
    };
    const environment = working(work, { cleanup: () => void cleanups++ });
    const { client } = await serve(environment, [{}], { idleTimeoutMs: 1000 });
    const result = client.call(await client.begin(), 'work');
    await started.promise;
    await client.begin();
    // The other session began later, and is deleted first.
    await expect.poll(() => cleanups).toBe(1);
    go.resolve('done');
    expect(await result).toEqual(success({ blocks: [{ type: 'text', text: 'done' }] }));
  });

  it('tells of a clean-up that fails, which clients do not hear of', async () => {
    const problems: SessionProblem[] = [];
    const environment = working(() => 'done', {
      cleanup: () => {
        throw new Error('still locked');
      },
    });
    const { client } = await serve(environment, [{}], { onProblem: (problem) => problems.push(problem) });
    const session = await client.begin();
    await client.answer('/prompt', { session });
    expect(await client.answer('/delete', { session, body: {} })).toEqual([200, { sid: session }]);
    const message = expect.stringContaining('still locked');
    expect(problems).toEqual([{ event: 'cleanup_failed', session, message }]);
  });

  it('lets clients wait when all sessions are in use', async () => {
    const { client } = await serve(safe(), codes, { maxSessions: 2 });
    const [first] = [await client.begin(), await client.begin()];
    const refused = await client.send('/create', {
      session: randomUUID(),
      body: { split: 'train', index: 0 },
    });
    expect(refused.status).toBe(503);
    expect([refused.headers.get('retry-after'), refused.headers.get('x-backend-state')]).toEqual([
      '2',
      'starting',
    ]);
    await client.answer('/delete', { session: first, body: {} });
    await client.begin();
  });

  it('cleans up all sessions when it is closed', async () => {
    const journal = newJournal();
    const { client, server } = await serve(safe(journal), codes);
    for (const index of [0, 1, 0]) await client.answer('/prompt', { session: await client.begin(index) });
    await Promise.all([server.close(), server.close()]);
    expect(journal.closed.sort()).toEqual([3, 3, 7]);
    await expect(client.answer('/health')).rejects.toThrow('fetch failed');
  });

  it('asks for the key, in either header', async () => {
    const { server } = await serve(safe(), codes, { apiKey: 'mine' });
    const statusWith = async (headers: Record<string, string>) =>
      (await new RawClient(server.url, headers).send('/list_environments')).status;
    expect(await statusWith({ authorization: 'Bearer mine' })).toBe(200);
    expect(await statusWith({ 'x-api-key': 'mine' })).toBe(200);
    expect(await statusWith({ 'x-api-key': 'yours' })).toBe(401);
    expect(await statusWith({})).toBe(401);
    expect((await new RawClient(server.url).send('/health')).status).toBe(200);
  });

  it.for([
    ['/create', '{', 400, 'not JSON'],
    ['/create', '[]', 422, 'expected object'],
    ['/create', { split: 'train' }, 422, 'both split and index'],
    ['/create', { split: 'train', index: 0, task_spec: {} }, 422, 'both split and index'],
    ['/create', { split: 'train', index: 0, speed: 1 }, 422, 'speed'],
    ['/create', { split: 'test', index: 0 }, 400, 'Invalid split "test": there are train'],
    ['/create', { split: 'train', index: 2 }, 400, 'Invalid index 2: the split "train" has 2 tasks'],
    ['/create', { split: 'train', index: -1 }, 400, 'Invalid index -1'],
    ['/create', { task_spec: { code: 'x' } }, 422, 'does not fit the schema of "safe"'],
    ['/create', { env_name: 'other', split: 'train', index: 0 }, 404, 'unknown environment "other"'],
    ['/create', { split: 'train', index: 0, toolset_name: 'codex' }, 400, 'toolset "codex"'],
    ['/other/call', { name: 'dial', input: {} }, 404, 'unknown environment "other"'],
    ['/safe/call', { name: 'dial' }, 422, 'input'],
    ['/safe/call', { name: 'dial', input: {} }, 404, 'Active environment not found'],
    ['/safe/tasks', { split: 'absent' }, 400, 'Invalid split'],
    ['/safe/score_group', { candidates: [] }, 404, 'does not implement score_group'],
    ['/safe/nothing', {}, 404, '/safe/nothing'],
  ] as const)('refuses %s %j with %s and words', async ([path, body, status, words]) => {
    const { client } = await serve(safe(), codes);
    expect(await client.answer(path, { session: 'x', body })).toEqual([
      status,
      expect.stringContaining(words),
    ]);
  });

  it('refuses a request without a session, a second creation, and secrets, which nothing would read', async () => {
    const { client } = await serve(safe(), codes);
    const body = { split: 'train', index: 0 };
    expect(await client.answer('/create', { body })).toEqual([400, 'X-Session-ID header is required']);
    const session = await client.begin();
    expect(await client.answer('/create', { session, body })).toEqual([400, 'Session already exists']);
    const secret = (names: string[]) => ({
      'x-secrets': Buffer.from(
        JSON.stringify(Object.fromEntries(names.map((name) => [name, { value: 'v' }]))),
      ).toString('base64'),
    });
    expect(await client.answer('/create', { session: 'a', body, headers: secret(['judge']) })).toEqual([
      400,
      expect.stringContaining('takes no secrets, and got judge'),
    ]);
    // The client for Python sends its own key so, always.
    const own = secret(['api_key', 'OPENREWARD_API_KEY']);
    expect((await client.answer('/create', { session: 'a', body, headers: own }))[0]).toBe(200);
  });

  it('has tasks by split, index and range, as Python counts them', async () => {
    const { client } = await serve(safe(), [...codes, { code: 9 }]);
    const ask = async (path: string, body: object) => (await client.answer(path, { body }))[1];
    expect(await ask('/safe/num_tasks', { split: 'train' })).toEqual({ num_tasks: 3 });
    expect(await ask('/task', { split: 'train', index: 1 })).toEqual({ task: { code: 7 }, env_name: 'safe' });
    for (const [range, tasks] of [
      [{}, [3, 7, 9]],
      [{ start: 1 }, [7, 9]],
      [{ start: -1 }, [9]],
      [{ start: -9, stop: -1 }, [3, 7]],
      [{ start: 2, stop: 99 }, [9]],
      [{ start: 2, stop: 1 }, []],
      [{ start: null, stop: 1 }, [3]],
    ] as const)
      expect(await ask('/SAFE/task_range', { split: 'train', ...range })).toEqual({
        tasks: tasks.map((code) => ({ code })),
        env_name: 'safe',
      });
  });
});
