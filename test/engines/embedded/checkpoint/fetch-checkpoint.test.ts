import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, statSync } from 'node:fs';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { fetchCheckpoint } from '../../../../src/engines/embedded/checkpoint/fetch-checkpoint.ts';
import { readCheckpoint } from '../../../../src/engines/embedded/checkpoint/read-checkpoint.ts';
import { lockFile } from '../../../../src/util/file-lock.ts';
import { temporaryFolder } from '../../../support/files.ts';
import { fromSource, root } from '../../../support/programs.ts';
import { commit, hubServer } from './hub-server.ts';
import { fixtureFolder } from './reference.ts';

const run = promisify(execFile);
const name = 'tiny/llama';
const needed = [
  'LICENSE',
  'config.json',
  'generation_config.json',
  'model-00001-of-00002.safetensors',
  'model-00002-of-00002.safetensors',
  'model.safetensors.index.json',
];

/** A hub that has the fixture, and files of other forms that nobody needs. */
async function hub(token?: string) {
  const files = new Map<string, Buffer>();
  for (const file of needed.slice(1)) files.set(file, await readFile(join(fixtureFolder('llama'), file)));
  for (const file of ['LICENSE', 'README.md', 'pytorch_model.bin', 'onnx/model.onnx'])
    files.set(file, Buffer.from(file));
  const server = await hubServer(files, { name, ...(token !== undefined && { token }) });
  return { files, server, options: { hubUrl: server.url, cache: join(await temporaryFolder(), 'cache') } };
}

/** Fetches it in another process, which prints what it has. */
const inProcess = (options: object) =>
  run(process.execPath, [
    ...fromSource,
    '--input-type=module',
    '--eval',
    `import { fetchCheckpoint } from ${JSON.stringify(join(root, 'src/engines/embedded/checkpoint/fetch-checkpoint.ts'))};
     console.log(JSON.stringify(await fetchCheckpoint(${JSON.stringify(name)}, ${JSON.stringify(options)})));`,
  ]);

describe('a checkpoint on the hub', () => {
  it('is fetched once, without the files it does not need, and can be read', async () => {
    const { files, server, options } = await hub();
    const reported: number[] = [];
    let total = 0;
    const onProgress = ({ bytes, totalBytes }: { bytes: number; totalBytes: number }) => {
      reported.push(bytes);
      total = totalBytes;
    };
    const { folder, ...rest } = await fetchCheckpoint(name, { ...options, onProgress });
    expect(rest).toEqual({ commit, isOffline: false });
    expect((await readdir(folder)).toSorted()).toEqual(needed);
    for (const file of needed) expect(await readFile(join(folder, file))).toEqual(files.get(file));
    expect((await readCheckpoint(folder)).weights.size).toBe(21);
    expect(reported).toEqual(reported.toSorted((a, b) => a - b));
    expect(reported.at(-1)).toBe(total);
    expect(total).toBe(needed.reduce((sum, file) => sum + (files.get(file)?.length ?? 0), 0));
    server.sent.length = 0;
    expect((await fetchCheckpoint(`${name}@main`, options)).folder).toBe(folder);
    expect(server.sent).toEqual([]);
  });

  it('is continued where a connection was cut, in the same call', async () => {
    const { files, server, options } = await hub();
    const shard = 'model-00001-of-00002.safetensors';
    const size = files.get(shard)?.length ?? 0;
    // The files come in the order of the listing: three before the shard are whole.
    const before = [...files.keys()].filter((file) => needed.includes(file)).indexOf(shard);
    server.cuts.push(...Array.from({ length: before }, () => 1e9), 1000, 5000);
    const { folder } = await fetchCheckpoint(name, options);
    expect(await readFile(join(folder, shard))).toEqual(files.get(shard));
    const [first, second, third] = server.sent.filter((range) => range.startsWith(shard));
    expect(first).toBe(`${shard} 0-${size - 1}`);
    for (const [range, least] of [
      [second, 1],
      [third, 2],
    ] as const)
      expect(Number(range?.match(/ (\d+)-/)?.[1])).toBeGreaterThanOrEqual(least);
  });

  it('is continued when a connection falls silent', async () => {
    const { files, server, options } = await hub();
    server.cuts.push(-100);
    const { folder } = await fetchCheckpoint(name, { ...options, idleTimeoutMs: 500 });
    for (const file of needed) expect(await readFile(join(folder, file))).toEqual(files.get(file));
    expect(server.sent[1]).toMatch(/ 100-\d+$/);
  });

  it('is continued by the next call when the hub went away', async () => {
    const { files, server, options } = await hub();
    // Every connection is cut at once, and none brings a byte.
    server.cuts.push(20, ...Array.from({ length: 40 }, () => 0));
    await expect(fetchCheckpoint(name, options)).rejects.toMatchObject({ code: 'hub_unreachable' });
    expect((await readdir(join(options.cache, 'tiny--llama'))).toSorted()).toEqual([
      `${commit}.lock`,
      `${commit}.unfinished`,
    ]);
    server.cuts.length = 0;
    server.sent.length = 0;
    const { folder } = await fetchCheckpoint(name, options);
    for (const file of needed) expect(await readFile(join(folder, file))).toEqual(files.get(file));
    expect(server.sent[0]).toMatch(/ 20-\d+$/);
    expect((await readdir(join(options.cache, 'tiny--llama'))).toSorted()).toEqual([commit, 'main.commit']);
  });

  it.each(['config.json', 'model-00002-of-00002.safetensors'])(
    'with another hash is refused: %s',
    async (file) => {
      const { files, server, options } = await hub();
      const content = files.get(file) ?? Buffer.alloc(0);
      server.replace.set(file, Buffer.from(content).fill(7, 100, 101));
      await expect(fetchCheckpoint(name, options)).rejects.toMatchObject({
        code: 'checkpoint_corrupt',
        message: expect.stringContaining(`${file} has another hash than on the hub`),
      });
      server.replace.clear();
      expect((await readCheckpoint((await fetchCheckpoint(name, options)).folder)).weights.size).toBe(21);
    },
  );

  it('is fetched once when two processes want it: the second waits for the first', async () => {
    const { files, server, options } = await hub();
    // The first loses its connection after a while, and goes on.
    server.cuts.push(-100);
    const first = inProcess({ ...options, idleTimeoutMs: 1000 });
    await expect.poll(() => server.sent.length).toBe(1);
    const warned = once(process, 'warning');
    const second = await fetchCheckpoint(name, options);
    expect(await warned).toMatchObject([{ code: 'martingale_fetch_waits' }]);
    expect(JSON.parse((await first).stdout)).toEqual(second);
    for (const file of needed) expect(await readFile(join(second.folder, file))).toEqual(files.get(file));
    expect(server.sent).toHaveLength(needed.length + 1);
    expect((await readdir(join(options.cache, 'tiny--llama'))).toSorted()).toEqual([commit, 'main.commit']);
  });

  it('is continued when the process that fetched it is killed', async () => {
    const { server, options } = await hub();
    server.cuts.push(-100);
    const killed = inProcess(options);
    const partial = join(options.cache, 'tiny--llama', `${commit}.unfinished`, 'config.json.partial');
    await expect.poll(() => existsSync(partial) && statSync(partial).size).toBe(100);
    const waiting = fetchCheckpoint(name, options);
    killed.child.kill('SIGKILL');
    await expect(killed).rejects.toThrow();
    expect((await waiting).commit).toBe(commit);
    expect(server.sent[1]).toMatch(/ 100-\d+$/);
  });

  it('is left at once when the signal aborts, and continued by the next call', async () => {
    const { files, server, options } = await hub();
    server.cuts.push(-100);
    const stop = new AbortController();
    const onProgress = ({ bytes }: { bytes: number }) => bytes === 100 && stop.abort('enough');
    const left = fetchCheckpoint(name, { ...options, onProgress, signal: stop.signal });
    await expect(left).rejects.toBe('enough');
    // Its lock is free.
    const lock = lockFile(join(options.cache, 'tiny--llama', `${commit}.lock`));
    expect(lock).not.toBeNull();
    const second = new AbortController();
    process.once('warning', () => second.abort('no more waiting'));
    const waiting = fetchCheckpoint(name, { ...options, signal: second.signal });
    await expect(waiting).rejects.toBe('no more waiting');
    lock?.release();
    const { folder } = await fetchCheckpoint(name, options);
    for (const file of needed) expect(await readFile(join(folder, file))).toEqual(files.get(file));
    expect(server.sent[1]).toMatch(/ 100-\d+$/);
  });

  it('is not waited for without end when the process that fetches it hangs', async () => {
    const { options } = await hub();
    const repository = join(options.cache, 'tiny--llama');
    await mkdir(repository, { recursive: true });
    const lock = lockFile(join(repository, `${commit}.lock`));
    await expect(fetchCheckpoint(name, { ...options, idleTimeoutMs: 50 })).rejects.toMatchObject({
      code: 'hub_unreachable',
      message: expect.stringContaining('has written nothing for 500 ms. End that process'),
    });
    lock?.release();
    expect((await fetchCheckpoint(name, options)).commit).toBe(commit);
  });

  it.each(['LICENSE\\..\\..\\x.bat', 'a\\..\\x.json'])(
    'leaves out names that are paths on another system: %s',
    async (file) => {
      const { files, options } = await hub();
      files.set(file, Buffer.from('x'));
      const { folder } = await fetchCheckpoint(name, options);
      expect((await readdir(folder)).toSorted()).toEqual(needed);
    },
  );

  it('without a hub is the one fetched before, or an error with the address and the hub', async () => {
    const { server, options } = await hub();
    const { folder } = await fetchCheckpoint(name, options);
    await server.close();
    expect(await fetchCheckpoint(name, options)).toEqual({ folder, commit, isOffline: true });
    await expect(fetchCheckpoint('tiny/other', options)).rejects.toMatchObject({
      code: 'hub_unreachable',
      message: expect.stringMatching(
        /^hf:tiny\/other cannot be fetched: http:\/\/127.* is not reachable \(.*ECONNREFUSED/,
      ),
    });
  });

  it('that the hub does not give is refused with its answer', async () => {
    const { options } = await hub('hf_secret');
    await expect(fetchCheckpoint(name, options)).rejects.toMatchObject({
      code: 'hub_refused',
      message: expect.stringMatching(/answered 401: Access to this model is restricted.*HF_TOKEN/),
    });
    const accessToken = 'hf_secret';
    await expect(fetchCheckpoint(`${name}@nowhere`, { ...options, accessToken })).rejects.toMatchObject({
      code: 'hub_refused',
      message: expect.stringMatching(/answered 404.*Check the name and the revision/),
    });
    expect((await fetchCheckpoint(name, { ...options, accessToken })).commit).toBe(commit);
  });

  it('is not asked for with something else than a token', async () => {
    const { options } = await hub();
    await expect(fetchCheckpoint(name, { ...options, accessToken: 'secret' })).rejects.toMatchObject({
      code: 'bad_option',
      message: expect.not.stringContaining('secret'),
    });
  });

  it('that cannot be stored is an error of the disk, not of the hub', async () => {
    const { options } = await hub();
    const cache = join(fixtureFolder('llama'), 'config.json');
    await expect(fetchCheckpoint(name, { ...options, cache })).rejects.toMatchObject({
      code: 'storage_failed',
      message: expect.stringContaining(cache),
    });
  });

  it.each(['llama', 'a/b/c', '../x', 'a/..', 'a/b@', ''])('must be named: %j', async (address) => {
    const cache = await temporaryFolder();
    await expect(fetchCheckpoint(address, { cache })).rejects.toMatchObject({ code: 'bad_option' });
  });
});
