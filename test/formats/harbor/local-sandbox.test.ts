import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { localSandbox } from 'martingale/environments';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { hasBubblewrap } from './has-bubblewrap.ts';
import { noImage } from './no-image.ts';

const signal = AbortSignal.timeout(120_000);
const settings = { image: noImage, workdir: '/app', copies: [], env: {}, hasNetwork: false, signal };
const timeoutMs = 20_000;

/** The command lines of this machine's processes. */
async function commands(): Promise<string> {
  const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const lines = ids.map((id) => readFile(`/proc/${id}/cmdline`, 'utf8').catch(() => ''));
  return (await Promise.all(lines)).join('\n');
}

const foldersOf = async (pid: number | undefined) =>
  (await readdir(join(tmpdir(), `martingale-sandboxes-${process.getuid?.()}`))).filter((name) =>
    name.startsWith(`${pid}-`),
  );

it.each([
  [{ maxSandboxes: 0 }, /`maxSandboxes` is 0/],
  [{ maxSandbox: 1 }, /no option `maxSandbox`/],
])('refuses %o', (options, message) => {
  expect(() => localSandbox(Object(options))).toThrow(message);
});

it('says what to install on a machine without bubblewrap', async () => {
  vi.stubEnv('PATH', '/nowhere');
  onTestFinished(() => void vi.unstubAllEnvs());
  await expect(localSandbox().check()).rejects.toMatchObject({
    code: 'sandbox_away',
    message: expect.stringContaining('apt install bubblewrap'),
  });
});

describe.skipIf(!hasBubblewrap)('localSandbox', () => {
  it('ends with a harness that is killed, and the next one deletes its files', async () => {
    const name = `sleeper-${process.pid}`;
    const program = fileURLToPath(new URL('killed-harness.ts', import.meta.url));
    const harness = spawn(process.execPath, [program, name], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(harness.stdout, 'data');
    await vi.waitFor(async () => expect(await commands()).toContain(`\n${name}\0`), { timeout: 10_000 });
    expect(await foldersOf(harness.pid)).toHaveLength(1);
    harness.kill('SIGKILL');
    await once(harness, 'exit');
    await vi.waitFor(async () => expect(await commands()).not.toContain(name), { timeout: 10_000 });
    await localSandbox().check();
    expect(await foldersOf(harness.pid)).toEqual([]);
  }, 40_000);

  it('refuses to run a command as a user that it does not have', async () => {
    const sandbox = await localSandbox().create(settings);
    await expect(sandbox.exec('id', { timeoutMs, signal, user: 'guest' })).rejects.toThrow(/no user "guest"/);
    const { stdout } = await sandbox.exec('id -u', { timeoutMs, signal, user: 'root' });
    expect(stdout.toString()).toBe('0\n');
    await sandbox.close();
  });

  it('shows the folders of the machine that it is told to show, and lets nobody write them', async () => {
    // In a sandbox, the machine's own `/dev` is not there.
    const shown = await mkdtemp('/tmp/shown-');
    onTestFinished(() => rm(shown, { recursive: true, force: true }));
    await writeFile(join(shown, 'tool.txt'), 'a tool');
    const sandbox = await localSandbox({ folders: [shown] }).create(settings);
    const command = `cat ${shown}/tool.txt; touch ${shown}/more.txt || echo no`;
    const { stdout } = await sandbox.exec(command, { timeoutMs, signal });
    await sandbox.close();
    expect(stdout.toString()).toBe('a toolno\n');
    expect(() => localSandbox({ folders: ['here'] })).toThrow(/`folders` is "here"/);
  });

  it('reaches the network only where the task does', async () => {
    let connections = 0;
    const server = createServer((socket) => {
      connections += 1;
      socket.end();
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    const address = server.address();
    const port = typeof address === 'object' ? address?.port : 0;
    for (const hasNetwork of [false, true]) {
      const sandbox = await localSandbox().create({ ...settings, hasNetwork });
      const { exitCode } = await sandbox.exec(`echo > /dev/tcp/127.0.0.1/${port}`, { timeoutMs, signal });
      expect(exitCode).toBe(hasNetwork ? 0 : 1);
      await sandbox.close();
    }
    await vi.waitFor(() => expect(connections).toBe(1));
  });

  it('keeps no more of an output than it should, and says so', async () => {
    const sandbox = await localSandbox().create(settings);
    const result = await sandbox.exec('yes | head -c 3000000', { timeoutMs, signal, maxBytes: 1000 });
    expect([result.stdout.length, result.isCut, result.exitCode]).toEqual([1000, true, 0]);
    await sandbox.close();
  });

  it('lets a sandbox wait for a place, until its signal aborts', async () => {
    const kind = localSandbox({ maxSandboxes: 1 });
    const first = await kind.create(settings);
    const gone = new AbortController();
    const refused = kind.create({ ...settings, signal: gone.signal });
    const waiting = kind.create(settings);
    gone.abort(new Error('cancelled'));
    await expect(refused).rejects.toThrow('cancelled');
    await first.close();
    const second = await waiting;
    expect((await second.exec('pwd', { timeoutMs, signal })).stdout.toString()).toBe('/app\n');
    await second.close();
  });

  it('ends a command that runs when it is closed or cancelled, and runs none afterwards', async () => {
    const sandbox = await localSandbox().create(settings);
    const cancel = new AbortController();
    const cancelled = sandbox.exec('sleep 1000', { timeoutMs, signal: cancel.signal });
    cancel.abort(new Error('cancelled'));
    await expect(cancelled).rejects.toThrow('cancelled');
    const running = sandbox.exec('sleep 1000', { timeoutMs, signal });
    const ended = expect(running).rejects.toMatchObject({ code: 'sandbox_failed' });
    await sandbox.close();
    await ended;
    await expect(sandbox.exec('true', { timeoutMs, signal })).rejects.toMatchObject({
      code: 'sandbox_failed',
    });
    expect(await foldersOf(process.pid)).toEqual([]);
  });
});
