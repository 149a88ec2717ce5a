import { readdir, readFile, utimes } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { exportPage, startView } from '../../src/view/index.ts';
import { startFakeService } from '../model/fake-service.ts';
import { sharedFolder, temporaryFolder } from '../support/files.ts';
import { makeRun } from './make-run.ts';

const folder = sharedFolder();

beforeAll(() =>
  makeRun({ runDirectory: join(folder, 'desk'), steps: 2, groupsPerStep: 2, rolloutsPerGroup: 2 }),
);

async function view(options: Partial<Parameters<typeof startView>[0]> = {}) {
  const running = await startView({ folders: [folder], port: 0, ...options });
  onTestFinished(() => running.close());
  const { origin, port } = new URL(running.url);
  const first = await fetch(running.url);
  const cookie = first.headers.get('set-cookie') ?? '';
  const get = (path: string, headers: Record<string, string> = {}) =>
    fetch(`${origin}${path}`, { headers: { cookie, ...headers } });
  return { ...running, origin, port: Number(port), first, cookie, get };
}

/** With a `Host` of its own, which fetch does not allow. */
const statusFor = (port: number, path: string, headers: Record<string, string>) =>
  new Promise<number | undefined>((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, path, headers }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    sent.once('error', reject);
    sent.end();
  });

describe('the page', () => {
  it('is served with its secret alone, and keeps it as a cookie that no script reads', async () => {
    const { origin, first, cookie, get, url } = await view();
    expect(first.status).toBe(200);
    expect(await first.text()).toContain('<div id="page">');
    expect(cookie).toMatch(/^martingale-view-\d+=[\w-]{32}; HttpOnly; SameSite=Strict; Path=\/$/);
    for (const path of ['/', '/page.js', '/api/runs.json', '/?key=wrong'])
      expect((await fetch(`${origin}${path}`)).status).toBe(403);
    for (const path of ['/page.js', '/page.css', '/api/runs.json'])
      expect((await get(path)).status).toBe(200);
    expect(new URL(url).searchParams.get('key')).toHaveLength(32);
    const other = await view();
    expect((await other.get('/api/runs.json', { cookie })).status).toBe(403);
  });

  it('opens by a code once, which is all that the arguments of a browser show', async () => {
    const { origin, cookie, url, openingUrl } = await view();
    const secret = new URL(url).searchParams.get('key') ?? '';
    const opening = openingUrl();
    expect(opening).not.toContain(secret);
    const opened = await fetch(opening, { redirect: 'manual' });
    expect([opened.status, opened.headers.get('location')]).toEqual([303, '/']);
    expect(opened.headers.get('set-cookie')).toBe(cookie);
    for (const used of [opening, `${origin}/open`, `${origin}/open?code=x`])
      expect((await fetch(used, { redirect: 'manual' })).status).toBe(403);
    expect((await fetch(openingUrl(), { redirect: 'manual' })).status).toBe(303);
  });

  it('answers only under names of this machine, so that no other site can point its name here', async () => {
    const { port, cookie } = await view();
    const status = (host: string) => statusFor(port, '/api/runs.json', { host, cookie });
    expect(await status(`127.0.0.1:${port}`)).toBe(200);
    expect(await status(`evil.example:${port}`)).toBe(421);
    expect(await status('127.0.0.1.evil.example')).toBe(421);
  });

  it('forbids every source but itself, and says nothing to other origins', async () => {
    const { get } = await view();
    const { headers } = await get('/', { origin: 'https://evil.example' });
    expect(headers.get('content-security-policy')).toContain("default-src 'self'");
    expect(headers.get('content-security-policy')).toContain("frame-ancestors 'none'");
    expect(headers.get('access-control-allow-origin')).toBeNull();
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(await (await get('/')).text()).not.toMatch(/https?:\/\/|<style|style=|onload/);
  });

  it('refuses addresses that lead nowhere or out of its folders, with a sentence', async () => {
    const { get } = await view();
    const paths = [
      'runs/absent.json',
      'runs/desk/steps/0/groups/x.json',
      'runs/..%2F..%2Fetc.json',
      'runs/desk/steps/..%2F..%2Fconfig.json',
      'runs/desk/steps/%ff.json',
      'service.json',
      'nothing.json',
      'runs',
    ];
    for (const path of paths) {
      const answer = await get(`/api/${path}`);
      expect([400, 404], path).toContain(answer.status);
      expect(await answer.json(), path).toEqual({ error: { message: expect.stringMatching(/\w/) } });
    }
    expect((await get('/..%2fpackage.json')).status).toBe(404);
  });
});

describe('live', () => {
  it('a change of a run is told to who follows it', async () => {
    const { get } = await view();
    const stream = (await get('/api/events')).body?.pipeThrough(new TextDecoderStream()).getReader();
    onTestFinished(() => stream?.cancel());
    let text = '';
    const until = async (part: string) => {
      while (!text.includes(part)) text += (await stream?.read())?.value ?? '';
    };
    await until('event: ready');
    // The first look at the files is the one that later ones are compared with.
    const touch = setInterval(
      () => void utimes(join(folder, 'desk', 'metrics.jsonl'), new Date(), new Date()),
      300,
    );
    onTestFinished(() => clearInterval(touch));
    await until('event: change\ndata: {"run":"desk"}');
  });
});

describe('a service', () => {
  it('is shown with its models and asked from the page, with its key on this side', async () => {
    const service = await startFakeService({
      policy: ({ messages }) => ({ text: `heard ${messages.length}` }),
    });
    onTestFinished(() => service[Symbol.asyncDispose]());
    const { baseUrl, apiKey } = service.client.options;
    const { get, origin, cookie } = await view({
      service: { baseUrl: String(baseUrl), apiKey: String(apiKey) },
    });
    expect(await (await get('/api/runs.json')).json()).toMatchObject({ service: baseUrl });
    const ask = (headers: Record<string, string>, body: object) =>
      fetch(`${origin}/api/service/chat`, {
        method: 'POST',
        headers: { cookie, 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
      });
    const messages = [{ role: 'user', content: 'hello' }];
    const question = { model: 'any', openingOf: null, messages, temperature: 0, maxTokens: 8 };
    expect(await (await ask({ origin }, question)).json()).toMatchObject({ message: { content: 'heard 1' } });
    expect((await ask({ origin: 'https://evil.example' }, question)).status).toBe(400);
    expect((await ask({}, question)).status).toBe(400);
    expect((await ask({ 'sec-fetch-site': 'same-site' }, question)).status).toBe(400);
    const wrong = await ask({ origin }, { ...question, temperature: 'hot' });
    expect(wrong.status).toBe(400);
    expect(await wrong.text()).toContain('temperature');
  });
});

describe('an export', () => {
  /** The answers of an export, by their addresses. */
  async function answersIn(to: string): Promise<Map<string, object>> {
    const names = await readdir(join(to, 'api'), { recursive: true });
    const texts = await Promise.all(
      names
        .filter((name) => name.endsWith('.gz'))
        .map(async (name) => gunzipSync(await readFile(join(to, 'api', name))).toString()),
    );
    const lines = texts.flatMap((text) => text.trimEnd().split('\n'));
    return new Map(
      lines.map((line) => line.split('\t')).map(([path = '', json = '']) => [path, JSON.parse(json)]),
    );
  }

  it('has every answer of the API, in at most one file for each step', async () => {
    const to = join(await temporaryFolder(), 'out');
    const shown: string[] = [];
    const onProgress = (done: number, total: number, run: string) => shown.push(`${run} ${done}/${total}`);
    const { runs, leftOut, files } = await exportPage({
      folders: [folder],
      to,
      maxRollouts: 1000,
      onProgress,
    });
    expect([runs, leftOut]).toEqual([1, {}]);
    const { get } = await view();
    const answers = await answersIn(to);
    for (const [path, stored] of answers) {
      const live = await (await get(`/api/${path}.json`)).json();
      expect(stored, path).toEqual(live);
    }
    const { names } = JSON.parse(JSON.stringify(answers.get('runs/desk')));
    for (const kind of ['timeline', 'groups/0', 'groups/0/rollouts/1'])
      for (const which of names) expect(answers.has(`runs/desk/steps/${which}/${kind}`), which).toBe(true);
    expect([...answers.keys()].filter((path) => path.startsWith('flips/')).length).toBeGreaterThan(0);
    // The page has four files; the list of runs, the evaluations, the run and what flipped in it one each.
    expect(files).toBe(4 + 4 + names.length);
    expect(answers.get('comparisons/desk:before,desk:after')).toMatchObject({ problems: [] });
    expect(shown).toHaveLength(names.length);
    expect(shown[0]).toBe('desk 0/1');
    expect(await readdir(to)).toEqual(
      expect.arrayContaining(['index.html', 'page.js', 'page.css', 'icon.svg']),
    );
    await expect(exportPage({ folders: [folder], to, maxRollouts: 1000 })).rejects.toThrow(/out/);
  });

  it('of a run with too many rollouts has all lists, and says which conversations it lacks', async () => {
    const to = join(await temporaryFolder(), 'out');
    const { leftOut } = await exportPage({ folders: [folder], to, maxRollouts: 20 });
    const left = leftOut.desk ?? [];
    expect(left.length).toBeGreaterThan(0);
    const answers = await answersIn(to);
    for (const which of left) {
      expect(answers.has(`runs/desk/steps/${which}`)).toBe(true);
      expect(answers.has(`runs/desk/steps/${which}/groups/0`)).toBe(false);
    }
  });
});
