import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import { openEnv, openReward } from 'martingale/environments';
import { describe, expect, it, onTestFinished } from 'vitest';
import { fetchCheckpoint } from '../../src/engines/embedded/checkpoint/fetch-checkpoint.ts';
import { Connection } from '../../src/engines/tinker/connection.ts';
import { temporaryFolder } from '../support/files.ts';

/** A server, and what it was asked with. */
async function serve(answer: RequestListener, host = '127.0.0.1') {
  const asked: { url: string; method: string; headers: IncomingMessage['headers'] }[] = [];
  const server = createServer((request, response) => {
    asked.push({ url: request.url ?? '', method: request.method ?? '', headers: request.headers });
    answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : 0;
  return { url: `http://${host}:${port}`, asked };
}

/** Sends bytes until the other side has enough. */
function flood(response: ServerResponse, piece: string): void {
  const more = () => {
    while (!response.destroyed && response.write(piece));
    if (!response.destroyed) response.once('drain', more);
  };
  more();
}

const refusal = (promise: Promise<unknown>) =>
  promise.then(
    () => 'no error',
    ({ code, message }: { code: string; message: string }) => `${code}: ${message}`,
  );

const secret = 'sk-secret';

describe('a redirect to another server', () => {
  it.each([302, 303, 307, 308])(
    'gets no key of a training server, and no request that changes something: %i',
    async (status) => {
      const thief = await serve((_, response) => response.end('mine'));
      const server = await serve((_, response) =>
        response.writeHead(status, { location: `${thief.url}/x` }).end(),
      );
      const connection = new Connection(server.url, secret);
      const posted = connection.request('POST', 'train', {
        repeat: 'never',
        data: { type: 'text/plain', body: 'data' },
      });
      expect(await refusal(posted)).toMatch(
        new RegExp(
          `^engine_refused: The training server ${server.url} redirects train to ${thief.url}, which is not followed`,
        ),
      );
      expect(thief.asked).toEqual([]);
      // A download may be elsewhere.
      const got = await connection.request('GET', 'archive', { repeat: 'harmless' });
      expect(Buffer.from(got.body).toString()).toBe('mine');
      expect(thief.asked).toMatchObject([{ method: 'GET', url: '/x' }]);
      expect(JSON.stringify(thief.asked)).not.toContain(secret);
      await connection.close();
    },
  );

  it.each([302, 307])('gets no key and no secrets of openReward: %i', async (status) => {
    const thief = await serve((_, response) => response.end('[]'));
    const server = await serve((_, response) => response.writeHead(status, { location: thief.url }).end());
    const opened = openReward(server.url, { apiKey: secret, secrets: { TOKEN: secret } });
    expect(await refusal(opened)).toMatch(
      /^environment_server_refused: .* redirects \/list_environments to .*, which is not followed: keys and secrets are for the server that you name/,
    );
    expect(thief.asked).toEqual([]);
  });

  it('gets no key of OpenEnv', async () => {
    const thief = await serve((_, response) => response.end('{}'));
    const server = await serve((_, response) => response.writeHead(307, { location: thief.url }).end());
    expect(await refusal(openEnv(server.url, { apiKey: secret }))).toContain('307');
    expect(thief.asked).toEqual([]);
  });
});

describe('an answer without an end', () => {
  it('of a server of the Open Reward Standard is left with an error', async () => {
    const server = await serve((_, response) => flood(response, `"${'x'.repeat(1_000_000)}",`));
    expect(await refusal(openReward(server.url))).toMatch(
      /^environment_server_refused: .* answered \/list_environments: its answer has more than 67108864 bytes/,
    );
  });

  it('of an OpenEnv server is left with an error', async () => {
    const server = await serve((_, response) => flood(response, 'x'.repeat(1_000_000)));
    expect(await refusal(openEnv(server.url))).toContain('its answer has more than 16777216 bytes');
  });

  it('of a hub is left with an error', async () => {
    const server = await serve((_, response) =>
      flood(response.writeHead(200, { 'content-type': 'application/json' }), 'x'.repeat(1_000_000)),
    );
    expect(await fetchFrom(server.url)).toMatch(
      /^hub_refused: .* answers, but its answer has more than 16777216 bytes/,
    );
  });
});

const fetchFrom = async (hubUrl: string) =>
  refusal(fetchCheckpoint('owner/name', { hubUrl, cache: await temporaryFolder(), idleTimeoutMs: 20_000 }));

const sha = 'c0ffee'.padEnd(40, '0');
const json = (response: ServerResponse, value: unknown, headers: Record<string, string> = {}) =>
  response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value));

describe('a hub', () => {
  const info = { id: 'owner/name', sha, private: false, likes: 0, downloads: 0 };

  it('that lists pages without an end is refused', async () => {
    const server = await serve((request, response) =>
      request.url?.includes('/tree/')
        ? json(response, [], {
            link: `<${server.url}/api/models/owner/name/tree/${sha}?cursor=${Math.random()}>; rel="next"`,
          })
        : json(response, info),
    );
    expect(await fetchFrom(server.url)).toMatch(/^hub_refused: .* lists more than 100 pages of files/);
    expect(server.asked.length).toBeLessThan(110);
  });

  it.each<[string, (response: ServerResponse) => void, RegExp]>([
    [
      'what is not JSON',
      (response) => void response.writeHead(200).end('<html>'),
      /^hub_refused: .* but not as a hub does/,
    ],
    [
      'no commit',
      (response) => void json(response, { ...info, sha: '../../etc' }),
      /^hub_refused: .* it gives no commit for main/,
    ],
    [
      'a list in place of an object',
      (response) => void json(response, null),
      /^hub_refused: .* but not as a hub does/,
    ],
  ])('that answers %s is told as that, not as one that is away', async (_, answer, words) => {
    const server = await serve((__, response) => answer(response));
    expect(await fetchFrom(server.url)).toMatch(words);
  });

  it('that lists files without sizes or hashes is refused', async () => {
    for (const file of [
      { type: 'file', path: 'config.json', size: -1, oid: sha },
      { type: 'file', path: 'config.json', size: 1e300, oid: sha },
      { type: 'file', path: 'config.json', size: 3, oid: 'none' },
    ]) {
      const server = await serve((request, response) =>
        json(response, request.url?.includes('/tree/') ? [file] : info),
      );
      expect(await fetchFrom(server.url)).toMatch(/^hub_refused: .* no hash that can be checked/);
    }
  });

  it('cannot have other servers on networks of this machine asked', async () => {
    const inner = await serve((_, response) => response.end('private'), '127.0.0.2');
    for (const location of [
      inner.url,
      'http://169.254.169.254/latest',
      'http://[::1]:1/x',
      'file:///etc/passwd',
    ]) {
      const server = await serve((_, response) => response.writeHead(302, { location }).end());
      expect(await fetchFrom(server.url)).toMatch(/^hub_refused: .* redirects .* which is not followed/);
    }
    expect(inner.asked).toEqual([]);
    const byName = await serve((_, response) =>
      response.writeHead(302, { location: inner.url.replace('127.0.0.2', 'localhost') }).end(),
    );
    expect(await fetchFrom(byName.url)).toContain('localhost is on a network of this machine');
  });
});
