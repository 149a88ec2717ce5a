import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { runGroups } from 'martingale';
import { type OpenEnv, type OpenEnvOptions, openEnv } from 'martingale/environments';
import { scriptedModel } from 'martingale/testing';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type EnvServer, startEnvServer } from './env-server.ts';

const playing: OpenEnvOptions<{ text: string }, { guess: number }> = {
  prompt: ({ observation: { text } }) => text,
  action: ({ text }) => ({ guess: Number(text) }),
};

async function opened({ url }: EnvServer, connectTimeoutMs?: number): Promise<OpenEnv> {
  const env = await openEnv(url, {
    ...playing,
    ...(connectTimeoutMs === undefined ? {} : { connectTimeoutMs }),
  });
  onTestFinished(() => env.close());
  return env;
}

/** The states of so many rollouts, with the messages of failures. */
async function states(env: OpenEnv, rolloutsPerGroup = 1, timeoutMs = 60_000) {
  const model = scriptedModel(() => '7');
  const scenarios = [{ seed: 3 }];
  const { groups } = await runGroups({
    environment: env.environment,
    scenarios,
    rolloutsPerGroup,
    model,
    timeoutMs,
  });
  return groups.flatMap(({ rollouts }) =>
    rollouts.map((rollout) => (rollout.status === 'failed' ? rollout.failure.message : rollout.status)),
  );
}

/** Resolves when connections to the server's port have been refused so many times. */
function refusals({ url }: EnvServer, count: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const { port } = new URL(url);
  let left = count;
  const onError = (message: unknown) => {
    const isOurs = JSON.stringify(Object(message).connectParams).includes(port);
    if (isOurs && --left === 0) resolve();
  };
  subscribe('undici:client:connectError', onError);
  onTestFinished(() => void unsubscribe('undici:client:connectError', onError));
  return promise;
}

describe('a server of OpenEnv that is not up', () => {
  it('is waited for, and used as soon as it listens', async () => {
    const server = await startEnvServer();
    await server.stop();
    const refused = refusals(server, 2);
    const opening = opened(server);
    await refused;
    await server.listen();
    expect(await states(await opening)).toEqual(['completed']);
  });

  it('is waited for until the signal aborts', async () => {
    const server = await startEnvServer();
    await server.stop();
    const stop = new AbortController();
    const refused = refusals(server, 1);
    const opening = openEnv(server.url, { ...playing, signal: stop.signal });
    await refused;
    stop.abort('enough');
    await expect(opening).rejects.toBe('enough');
  });

  it('because it restarts costs no rollout', async () => {
    const server = await startEnvServer();
    const env = await opened(server);
    await server.stop();
    const refused = refusals(server, 4);
    const playing = states(env, 4);
    await refused;
    await server.listen();
    expect(await playing).toEqual(Array(4).fill('completed'));
    expect(server.resets).toHaveLength(4);
  });

  it('and does not come up is an error that says how often it was tried', async () => {
    const server = await startEnvServer();
    const env = await opened(server, 150);
    await server.stop();
    const told =
      /is away: connect ECONNREFUSED .*, in \d tries over 150 ms; start it, or raise connectTimeoutMs/;
    await expect(opened(server, 150)).rejects.toThrow(told);
    expect(await states(env)).toEqual([expect.stringMatching(told)]);
  });

  it('is waited for no longer than the rollout may take', async () => {
    const server = await startEnvServer();
    const env = await opened(server);
    await server.stop();
    expect(await states(env, 1, 300)).toEqual([expect.stringContaining('took longer than 300 ms')]);
  });

  it('and for which a proxy answers is waited for too', async () => {
    const server = await startEnvServer();
    const metadata = server.http['GET /metadata'];
    let asked = 0;
    Object.defineProperty(server.http, 'GET /metadata', {
      get: () => (asked++ === 0 ? { status: 503, body: 'starting' } : metadata),
    });
    let connected = 0;
    server.refusal = () => (connected++ === 0 ? 502 : undefined);
    expect(await states(await opened(server))).toEqual(['completed']);
    expect([asked, connected]).toEqual([2, 2]);
  });

  it('is told from one that refuses the connection for good, with its status', async () => {
    const server = await startEnvServer();
    const env = await opened(server);
    let connected = 0;
    server.refusal = () => {
      connected++;
      return 403;
    };
    expect(await states(env)).toEqual([expect.stringContaining('answered the WebSocket /ws with 403')]);
    expect(connected).toBe(1);
  });
});
