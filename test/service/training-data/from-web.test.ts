import type { IncomingHttpHeaders, RequestListener } from 'node:http';
import type { LookupFunction } from 'node:net';
import { gzipSync } from 'node:zlib';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { fetchUrl } from '../../../src/service/training-data/from-web.ts';
import { resolveSources } from '../../../src/service/training-data/sources.ts';
import { startServer } from '../../support/http-server.ts';

const name = 'data.example.org';

async function serve(listener: RequestListener, host = '127.0.0.1', at = 0): Promise<number> {
  const { port, close } = await startServer(listener, { host, port: at });
  onTestFinished(close);
  return port;
}

/** Answers of a DNS, one for each query; the last one repeats. */
function dns(...answers: string[][]) {
  const queries: string[] = [];
  const lookup: LookupFunction = (hostname, options, callback) => {
    const answer = answers[Math.min(queries.length, answers.length - 1)] ?? [];
    queries.push(hostname);
    const found = answer.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
    if (options.all) callback(null, found);
    else callback(null, found[0]?.address ?? '', found[0]?.family ?? 0);
  };
  return { queries, lookup };
}

/** Fetches with the given DNS; resolves to the text, or to the reason of the refusal. */
async function get(
  url: string,
  { hosts, lookup, limit = 1000 }: { hosts: string[]; lookup?: LookupFunction; limit?: number },
) {
  const pieces: Buffer[] = [];
  const sources = { ...(await resolveSources({ hosts })), ...(lookup ? { lookup } : {}) };
  const taker = { limit, take: async (bytes: Uint8Array) => void pieces.push(Buffer.from(bytes)) };
  const refused = await fetchUrl(new URL(url), sources, taker, new AbortController().signal).then(
    () => null,
    (error: Error) => error.message,
  );
  return { refused, text: Buffer.concat(pieces).toString() };
}

const notPublic = `${name} resolves to a non-public address`;

describe('a name that the operator has allowed', () => {
  test.each([
    ...['127.0.0.1', '10.0.0.7', '169.254.169.254', '100.64.0.1', '0.0.0.0', '::1', '::ffff:127.0.0.1'],
    ...['fe80::1', 'fd00::1', '64:ff9b::7f00:1', '2002:7f00:1::', '224.0.0.1'],
  ])('is not requested at %s', async (address) => {
    let requests = 0;
    const port = await serve((_, response) => response.end(String(++requests)), '127.0.0.1');
    const url = `http://${name}:${port}`;
    for (const answer of [[address], ['93.184.215.14', address]]) {
      const { refused } = await get(`${url}/a`, { hosts: [url], lookup: dns(answer).lookup });
      expect(refused).toContain(notPublic);
      expect(refused).not.toContain(address);
    }
    expect(requests).toBe(0);
  });

  test('is requested if the operator has also allowed the address, by itself or within its network', async () => {
    const port = await serve(({ headers }, response) => response.end(headers.host));
    const url = `http://${name}:${port}`;
    for (const allowed of ['127.0.0.1', '127.0.0.0/8']) {
      const { lookup } = dns(['127.0.0.1']);
      expect(await get(url, { hosts: [`${url}=${allowed}`], lookup })).toEqual({
        refused: null,
        text: `${name}:${port}`,
      });
    }
    const other = dns(['127.0.0.1', '127.0.0.2']);
    expect((await get(url, { hosts: [`${url}=127.0.0.1`], lookup: other.lookup })).refused).toContain(
      notPublic,
    );
    // An address that is allowed for one host is not allowed for another host or port.
    const hosts = [`${url}=127.0.0.1`, 'http://other.example.org', `http://${name}:444`];
    for (const apart of ['http://other.example.org/a', `http://${name}:444/a`])
      expect((await get(apart, { hosts, lookup: dns(['127.0.0.1']).lookup })).refused).toContain(
        'non-public address',
      );
  });

  test('is resolved once for each connection; a later DNS answer is checked again', async () => {
    let elsewhere = 0;
    const port = await serve((request, response) => {
      if (request.url === '/b') response.end('data');
      else response.writeHead(302, { location: '/b', connection: 'close' }).end();
    });
    await serve((_, response) => response.end(String(++elsewhere)), '127.0.0.2', port);
    const url = `http://${name}:${port}`;
    const steady = dns(['127.0.0.1'], ['127.0.0.1'], ['127.0.0.2']);
    const hosts = [`${url}=127.0.0.1`];
    expect(await get(`${url}/a`, { hosts, lookup: steady.lookup })).toEqual({ refused: null, text: 'data' });
    expect(steady.queries).toEqual([name, name]);
    const changing = dns(['127.0.0.1'], ['127.0.0.2']);
    expect((await get(`${url}/a`, { hosts, lookup: changing.lookup })).refused).toContain(notPublic);
    expect(elsewhere).toBe(0);
  });

  test('of this machine is refused as the system resolves it', async () => {
    const port = await serve((_, response) => response.end('here'));
    const url = `http://localhost:${port}`;
    expect((await get(url, { hosts: [url] })).refused).toContain(
      'localhost resolves to a non-public address',
    );
    expect(await get(url, { hosts: [`${url}=127.0.0.1`, `${url}=::1`] })).toEqual({
      refused: null,
      text: 'here',
    });
  });
});

test('an address is requested only if it is allowed itself, however it is spelled', async () => {
  const port = await serve((_, response) => response.end('here'));
  const spellings = ['127.0.0.1', '2130706433', '0x7f000001', '0177.0.0.1', '127.1', '127.0.0.1.', '0x7f.1'];
  for (const spelling of spellings) {
    const url = `http://${spelling}:${port}/a`;
    expect((await get(url, { hosts: [`http://${name}:${port}`] })).refused).toContain(
      'not a host that data may be fetched from',
    );
    const { text } = await get(url, { hosts: [`http://127.0.0.1:${port}`] });
    expect([spelling, text]).toEqual([spelling, 'here']);
  }
  for (const spelling of ['[::ffff:127.0.0.1]', '[::1]', '0.0.0.0', '127.0.0.2', 'localhost'])
    expect(
      (await get(`http://${spelling}:${port}/a`, { hosts: [`http://127.0.0.1:${port}`] })).refused,
    ).toContain('not a host that data may be fetched from');
});

test.each([
  ...[
    'http://127.0.0.1:1/a',
    'http://2130706433:1/',
    'http://[::1]:1/',
    'http://169.254.169.254/latest/meta-data',
  ],
  ...[
    'file:///etc/passwd',
    'ftp://127.0.0.1/',
    'data:text/plain,x',
    'javascript:1',
    '//127.0.0.2/',
    'upload:sha256-0',
  ],
])('a redirect to %s is not followed', async (location) => {
  const port = await serve((_, response) => response.writeHead(302, { location }).end());
  const url = `http://127.0.0.1:${port}`;
  expect((await get(url, { hosts: [url] })).refused).toContain('not a host that data may be fetched from');
});

test('a redirect with a password, and one without a location, are not followed', async () => {
  const port: number = await serve(({ url }, response) =>
    response.writeHead(302, url === '/a' ? { location: `http://user:word@127.0.0.1:${port}/` } : {}).end(),
  );
  const hosts = [`http://127.0.0.1:${port}`];
  expect((await get(`${hosts[0]}/a`, { hosts })).refused).toContain('password');
  expect((await get(`${hosts[0]}/b`, { hosts })).refused).toContain('answered 302');
});

test('no proxy of the environment is used, and no data of the service is sent', async () => {
  let proxied = 0;
  const seen: IncomingHttpHeaders[] = [];
  const proxy = await serve((_, response) => response.end(String(++proxied)));
  const port = await serve(({ headers }, response) => {
    seen.push(headers);
    response.end('here');
  });
  for (const variable of ['HTTP_PROXY', 'http_proxy', 'HTTPS_PROXY', 'ALL_PROXY'])
    vi.stubEnv(variable, `http://127.0.0.1:${proxy}`);
  vi.stubEnv('NODE_USE_ENV_PROXY', '1');
  onTestFinished(() => void vi.unstubAllEnvs());
  const url = `http://127.0.0.1:${port}`;
  expect((await get(url, { hosts: [url] })).text).toBe('here');
  expect(proxied).toBe(0);
  expect(Object.keys(seen[0] ?? {}).sort()).toEqual(
    [
      'accept',
      'accept-encoding',
      'accept-language',
      'connection',
      'host',
      'sec-fetch-mode',
      'user-agent',
    ].sort(),
  );
});

test('a body counts after decompression, and an endless one is aborted', async () => {
  const bomb = gzipSync(Buffer.alloc(64 * 1024 ** 2));
  const closed = Promise.withResolvers<void>();
  const port = await serve(({ url }, response) => {
    if (url === '/once') response.writeHead(200, { 'content-encoding': 'gzip' }).end(bomb);
    else if (url === '/twice')
      response.writeHead(200, { 'content-encoding': 'gzip, gzip' }).end(gzipSync(bomb));
    else {
      response.on('close', closed.resolve);
      const more = () => void (response.destroyed || response.write(Buffer.alloc(65_536), more));
      more();
    }
  });
  const url = `http://127.0.0.1:${port}`;
  const limit = 1024 ** 2;
  for (const path of ['/once', '/twice', '/endless']) {
    const { refused, text } = await get(url + path, { hosts: [url], limit });
    expect(refused).toContain(`exceeds the limit of ${limit} bytes`);
    expect(text.length).toBeLessThanOrEqual(limit);
  }
  await closed.promise;
  const small = await serve((_, response) =>
    response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('unpacked')),
  );
  expect((await get(`http://127.0.0.1:${small}`, { hosts: [`http://127.0.0.1:${small}`] })).text).toBe(
    'unpacked',
  );
});

test.each([
  `${name}=`,
  `${name}=ten`,
  `${name}=10.0.0.0/33`,
  `${name}=10.0.0.7=10.0.0.8`,
  '10.0.0.7=10.0.0.8',
  `${name}/path=10.0.0.7`,
])('%s ends the start', async (host) => {
  await expect(resolveSources({ hosts: [host] })).rejects.toMatchObject({ code: 'bad_option' });
});
