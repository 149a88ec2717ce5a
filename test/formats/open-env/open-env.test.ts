import { runGroups } from 'martingale';
import { type OpenEnv, type OpenEnvOptions, openEnv } from 'martingale/environments';
import { type ScriptedReply, scriptedModel } from 'martingale/testing';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type EnvServer, failure, observation, startEnvServer } from './env-server.ts';

type Seen = { text: string };
type Guess = { guess: number };

const playing: OpenEnvOptions<Seen, Guess> = {
  prompt: ({ observation: { text } }) => text,
  action: ({ text }) => (/^\d+$/.test(text) ? { guess: Number(text) } : null),
};

async function opened(server: EnvServer, options: OpenEnvOptions<Seen, Guess> = playing): Promise<OpenEnv> {
  const env = await openEnv<Seen, Guess>(server.url, options);
  onTestFinished(() => env.close());
  return env;
}

/** Rollouts of a scripted model, each with its replies in turn. */
async function rollouts(
  env: OpenEnv,
  replies: readonly ScriptedReply[],
  options: { rolloutsPerGroup?: number; timeoutMs?: number; scenarios?: { seed: number }[] } = {},
) {
  const model = scriptedModel(
    ({ messages }) => replies[messages.filter(({ role }) => role === 'assistant').length] ?? 'end',
  );
  const { groups } = await runGroups({
    environment: env.environment,
    scenarios: [{ seed: 3 }],
    rolloutsPerGroup: 1,
    model,
    ...options,
  });
  return groups.flatMap((group) => group.rollouts);
}

const failureOf = async (...of: Parameters<typeof rollouts>) => {
  const [rollout] = await rollouts(...of);
  return rollout?.status === 'failed' ? [rollout.failure.code, rollout.failure.message] : [rollout?.status];
};

describe('an environment of OpenEnv', () => {
  it('turns observations into messages and replies into actions, and rewards the replies', async () => {
    const server = await startEnvServer();
    server.step = ({ guess }) =>
      guess === 7
        ? observation({ text: 'right' }, { reward: true, done: true })
        : observation({ text: Number(guess) < 7 ? 'higher' : 'lower' }, { reward: -0.25 });
    const [rollout] = await rollouts(await opened(server), ['3', 'eight', '8', '7']);
    expect(rollout).toMatchObject({ status: 'completed', reward: 0.5 });
    const { trajectory } = rollout ?? {};
    expect(trajectory?.calls.map(({ reward }) => reward)).toEqual([-0.25, 0, -0.25, 1]);
    expect(trajectory?.stopReason).toBe('environment_done');
    expect(trajectory?.metrics.done).toBe(1);
    const said = trajectory?.calls.at(-1)?.messages.map(({ content }) => content);
    expect(said).toEqual([...['round 3', '3', 'higher', 'eight', 'That is no valid action.', '8', 'lower']]);
    expect(server.resets).toEqual([{ seed: 3 }]);
    await expect.poll(() => server.open.size).toBe(0);
  });

  it('has its tools as those of the agent, and its description as the prompt', async () => {
    const server = await startEnvServer();
    const schema = { type: 'object', properties: { word: { type: 'string' } }, required: ['word'] };
    server.step = ({ type, tool_name: name, arguments: input }) => {
      if (type === 'list_tools')
        return observation({ tools: [{ name: 'say', description: 'Says it.', input_schema: schema }] });
      const { word } = Object(input);
      if (word === 'no')
        return observation({
          tool_name: name,
          result: null,
          error: { error_type: 'invalid_args', message: 'not that' },
        });
      const isLast = word === 'end';
      return observation(
        { tool_name: name, result: { data: `said ${word}` } },
        { reward: 0.5, done: isLast },
      );
    };
    const env = await openEnv(server.url);
    onTestFinished(() => env.close());
    const say = (word: string): ScriptedReply => ({ toolCalls: [{ name: 'say', arguments: { word } }] });
    const [rollout] = await rollouts(env, [say('no'), say('yes'), say('end')]);
    expect(rollout).toMatchObject({ status: 'completed', reward: 1 });
    expect(rollout?.trajectory.calls.map(({ reward }) => reward)).toEqual([0, 0.5, 0.5]);
    const messages = rollout?.trajectory.calls.at(-1)?.messages ?? [];
    expect(messages[0]?.content).toBe('Guess the number.');
    expect(messages.filter(({ role }) => role === 'tool').map(({ content }) => content)).toEqual([
      'Error (invalid_args): not that',
      'said yes',
    ]);
  });

  it('has tasks as scenarios, or seeds where it has none', async () => {
    const server = await startEnvServer();
    expect(await (await opened(server)).scenarios(2)).toEqual([{ seed: 0 }, { seed: 1 }]);
    server.http['GET /list_environments'] = { body: ['guess'] };
    server.http['GET /guess/splits'] = {
      body: [
        { name: 'train', type: 'train' },
        { name: 'test', type: 'test' },
      ],
    };
    server.http['POST /guess/num_tasks'] = { body: { num_tasks: 2 } };
    const env = await opened(server);
    expect(env.splits).toEqual(['train', 'test']);
    const scenarios = await env.scenarios('test');
    expect(scenarios).toEqual([
      { seed: 0, split: 'test', index: 0 },
      { seed: 1, split: 'test', index: 1 },
    ]);
    await rollouts(env, ['7'], { scenarios });
    expect(server.resets).toEqual(scenarios);
    server.http['POST /guess/num_tasks'] = { status: 501, body: {} };
    await expect(env.scenarios('test')).rejects.toThrow(/does not say how many tasks "test" has/);
    await expect(env.scenarios(0)).rejects.toThrow(/whole number of seeds/);
    await expect(env.scenarios('val')).rejects.toThrow(/no split "val". It has train, test/);
    await expect(opened(server, { ...playing, environment: 'chess' })).rejects.toThrow(
      /no environment "chess"/,
    );
  });

  it('leaves an action to the server whose schema has rules that cannot be read', async () => {
    const server = await startEnvServer();
    server.http['GET /schema'] = { body: { action: { type: 'object', not: { required: ['word'] } } } };
    const [rollout] = await rollouts(await opened(server), ['7']);
    expect(rollout).toMatchObject({ status: 'completed', reward: 1 });
  });

  it('paces rollouts by the capacity of the server, and loses none', async () => {
    const server = await startEnvServer();
    server.capacity = 1;
    const all = await rollouts(await opened(server), ['7'], { rolloutsPerGroup: 3 });
    expect(all.map(({ status }) => status)).toEqual(Array(3).fill('completed'));
    expect(server.refused).toBeGreaterThan(0);
    expect(server.resets).toHaveLength(3);
  });

  it('waits for a full server until the deadline of the rollout', async () => {
    const server = await startEnvServer();
    server.capacity = 0;
    const [code] = await failureOf(await opened(server), ['7'], { timeoutMs: 300 });
    expect(code).toBe('rollout_timeout');
  });
});

describe('a rollout fails, without a reward, when', () => {
  it.each([
    ['EXECUTION_ERROR', 'environment_failed', 'division by zero'],
    ['SESSION_ERROR', 'environment_failed', 'gone'],
    ['VALIDATION_ERROR', 'environment_server_refused', 'Invalid message'],
  ])('the environment answers %s', async (code, expected, message) => {
    const server = await startEnvServer();
    server.step = () =>
      failure(code, message, code === 'VALIDATION_ERROR' ? { errors: [{ loc: ['guess'] }] } : {});
    expect(await failureOf(await opened(server), ['7'])).toEqual([
      expected,
      expect.stringContaining(`${code}: ${message}`),
    ]);
    await expect.poll(() => server.open.size).toBe(0);
  });

  it('the environment cannot be made', async () => {
    const server = await startEnvServer();
    server.reset = () => failure('FACTORY_ERROR', 'no such game');
    expect((await failureOf(await opened(server), ['7'])).join(' ')).toMatch(
      /setup_failed.*FACTORY_ERROR: no such game/,
    );
  });

  it('the connection is cut in a step', async () => {
    const server = await startEnvServer();
    server.step = (_, socket) => void socket.terminate();
    expect((await failureOf(await opened(server), ['7']))[0]).toBe('environment_server_away');
  });

  it('the server is silent', async () => {
    const server = await startEnvServer();
    const env = await opened(server, { ...playing, stepTimeoutMs: 200 });
    server.step = () => undefined;
    expect(await failureOf(env, ['7'])).toEqual([
      'environment_server_away',
      expect.stringContaining('silent for 200 ms; raise stepTimeoutMs'),
    ]);
  });

  it.each([
    ['not JSON', '{'],
    ['of no known type', '{"type":"surprise"}'],
  ])('the server sends a frame that is %s', async (_, text) => {
    const server = await startEnvServer();
    server.step = (__, socket) => void socket.send(text);
    expect((await failureOf(await opened(server), ['7']))[0]).toBe('environment_server_refused');
  });

  it('the server sends a frame of more than 16 MiB', async () => {
    const server = await startEnvServer();
    server.step = () => observation({ text: 'x'.repeat(17 * 1024 ** 2) });
    expect((await failureOf(await opened(server), ['7']))[0]).toBe('environment_server_away');
  });

  it('the server sends an observation that nobody asked for', async () => {
    const server = await startEnvServer();
    server.step = (_, socket) => {
      socket.send(JSON.stringify(observation({ text: 'lower' }, { reward: 1 })));
      return observation({ text: 'higher' });
    };
    expect(await failureOf(await opened(server), ['3', '7'])).toEqual([
      'environment_server_refused',
      expect.stringContaining('nobody asked for'),
    ]);
  });

  it('the environment is over at its reset, and no model is called', async () => {
    const server = await startEnvServer();
    server.reset = () => observation({ text: 'over' }, { reward: 1, done: true });
    const [rollout] = await rollouts(await opened(server), ['7']);
    expect(rollout?.status === 'failed' && rollout.failure.message).toContain('was over at its reset');
    expect(rollout?.trajectory.calls).toHaveLength(0);
    await expect.poll(() => server.open.size).toBe(0);
  });

  it('the server hangs, and its connection is cut', async () => {
    const server = await startEnvServer();
    const env = await opened(server, { ...playing, stepTimeoutMs: 200 });
    server.step = (_, socket) => {
      // Never answers that the client closes.
      socket.close = () => undefined;
      return undefined;
    };
    expect((await failureOf(env, ['7']))[0]).toBe('environment_server_away');
    await expect.poll(() => server.open.size, { timeout: 10_000 }).toBe(0);
  });

  it('an action does not fit the schema of the server', async () => {
    const server = await startEnvServer();
    const env = await opened(server, { ...playing, action: () => ({ guess: 1.5 }) });
    expect(await failureOf(env, ['7'])).toEqual(['action_invalid', expect.stringContaining('guess')]);
    expect(server.resets).toHaveLength(1);
  });
});

describe('openEnv refuses', () => {
  it('an address without a server', async () => {
    await expect(openEnv('http://127.0.0.1:9', { ...playing, connectTimeoutMs: 0 })).rejects.toMatchObject({
      code: 'environment_server_away',
      message: expect.stringContaining('ECONNREFUSED 127.0.0.1:9, in 1 try; start it'),
    });
    await expect(openEnv('ftp://x', playing)).rejects.toThrow(
      /`url` is ftp:\/\/x\. Pass an http or https address/,
    );
  });

  it('to guess what begins the conversation', async () => {
    const server = await startEnvServer();
    await expect(openEnv<Seen, Guess>(server.url, { action: playing.action })).rejects.toThrow(
      /`prompt` is missing/,
    );
    const constant = { prompt: 'Guess.', action: () => ({ guess: 1 }) };
    await expect(openEnv(server.url, constant)).rejects.toThrow(/`prompt` is a text/);
    // The second is what the package says for an environment without a description.
    for (const description of [undefined, 'guess environment']) {
      server.http['GET /metadata'] = { body: { name: 'guess', description } };
      await expect(openEnv(server.url)).rejects.toThrow(
        /`prompt` is missing, and the server has no description/,
      );
    }
  });

  it('the name of an environment where the server has no Task API', async () => {
    const server = await startEnvServer();
    await expect(opened(server, { ...playing, environment: 'guess' })).rejects.toThrow(/has no Task API/);
  });

  it('an unknown option, and a time that is none', async () => {
    const server = await startEnvServer();
    await expect(openEnv(server.url, Object({ promt: '' }))).rejects.toThrow(/no option `promt`/);
    await expect(openEnv(server.url, { stepTimeoutMs: 0 })).rejects.toThrow(/`stepTimeoutMs` is 0/);
    await expect(openEnv(server.url, { connectTimeoutMs: -1 })).rejects.toThrow(/`connectTimeoutMs` is -1/);
  });
});
