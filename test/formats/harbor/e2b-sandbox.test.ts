import { e2bSandbox, type HarborTasksOptions, harborTasks } from 'martingale/environments';
import { afterAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { startE2bService } from './e2b-service.ts';
import { noImage } from './no-image.ts';
import { startPodman } from './podman.ts';
import { dockerfile, rollOut as rollOutIn } from './roll-out.ts';
import { taskFolder } from './task-folder.ts';

const podman = await startPodman();
const service = podman && (await startE2bService(podman));
afterAll(async () => {
  await service?.close();
  await podman?.close();
});
beforeEach(() => {
  vi.stubEnv('E2B_API_URL', service?.url);
  vi.stubEnv('E2B_SANDBOX_URL', service?.url);
});

const sandbox = () => e2bSandbox({ apiKey: 'mine' });
const plain = dockerfile('WORKDIR /app', 'COPY given.txt .', 'ENV PATH=/opt/mine:/bin');

/** One rollout of the plain task, with these files too. */
const rollOut = (files: Record<string, string>, command: string, more: Partial<HarborTasksOptions> = {}) =>
  rollOutIn({ ...plain, ...files }, command, { sandbox: sandbox(), ...more });

/** A sandbox of the plain task, open until the test has ended. */
async function openOne(signal = new AbortController().signal) {
  const folder = `${await taskFolder(plain)}/answer/environment`;
  const image = { ...noImage, folder, buildTimeoutMs: 60_000 };
  return await sandbox().create({
    workdir: null,
    copies: [],
    image,
    env: { GIVEN: 'yes' },
    hasNetwork: true,
    signal,
  });
}

describe.skipIf(!service)('e2bSandbox', { tags: ['long'] }, () => {
  // This runs even where all tests below are skipped.
  const { state } = service ?? ({} as NonNullable<typeof service>);
  const signal = new AbortController().signal;
  const options = { timeoutMs: 20_000, signal };

  it('runs a task in a sandbox of its Dockerfile, and ends the sandbox', async () => {
    const { rollout, read } = await rollOut(
      {},
      'pwd; cat given.txt; echo $PATH; echo $((QUESTION)) > answer.txt',
    );
    expect(read).toContain('/app\\n42/opt/mine:/bin');
    expect(rollout).toMatchObject({ status: 'completed', reward: 1 });
    expect(state.builds).toHaveLength(1);
    expect(state.asked.at(-1)).toMatchObject({ timeout: 300, allow_internet_access: false });
    expect(service?.sandboxes.size).toBe(0);
  });

  it('makes a template once for the same files and limits', async () => {
    const before = state.builds.length;
    await rollOut({}, 'true');
    expect(state.builds).toHaveLength(before);
    const limits = '[environment]\ncpus = 2\nmemory_mb = 513\n';
    await rollOut({ 'task.toml': limits }, 'true');
    expect(state.builds).toHaveLength(before + 1);
    expect(state.asked.at(-1)?.templateID).toMatch(/-2cpu-513mb$/);
  });

  it('builds as Docker does: by root in /, unless the Dockerfile says otherwise', async () => {
    await rollOut({ ...dockerfile('RUN echo 1 > /built.txt') }, 'true');
    expect(state.builds.at(-1)?.trim().split('\n').slice(-2)).toEqual(['USER root', 'WORKDIR /']);
    await rollOut({ ...dockerfile('USER guest', 'WORKDIR /tmp') }, 'true');
    expect(state.builds.at(-1)?.trim().split('\n').slice(-2)).toEqual(['USER guest', 'WORKDIR /tmp']);
  });

  it('brings bytes in and out as they are, and cuts what is too long', async () => {
    const place = await openOne();
    const bytes = Buffer.from([0, 255, 10, 13, 64, 128, 39]);
    const same = await place.exec('cat; echo "it' + "'" + 's $GIVEN" >&2', { ...options, stdin: bytes });
    expect(same).toEqual({ exitCode: 0, stdout: bytes, stderr: Buffer.from("it's yes\n"), isCut: false });
    const long = await place.exec('seq 100000; exit 3', { ...options, maxBytes: 10 });
    expect(long).toMatchObject({ exitCode: 3, stdout: Buffer.from('1\n2\n3\n4\n5\n'), isCut: true });
    await place.close();
    await place.close();
  });

  it('ends a command, and what it has started, at its timeout and by its signal', async () => {
    const place = await openOne();
    const late = await place.exec('echo first; sleep 1000 & sleep 1000', { ...options, timeoutMs: 1500 });
    expect(late).toMatchObject({ exitCode: null, stdout: Buffer.from('first\n') });
    const reason = new Error('enough');
    const waiting = place.exec('sleep 1001', {
      ...options,
      signal: AbortSignal.any([AbortSignal.timeout(800)]),
    });
    await expect(waiting).rejects.toThrow('timeout');
    await expect(place.exec('true', { ...options, signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    const { stdout } = await place.exec('for p in /proc/[0-9]*; do cat $p/cmdline; echo; done', options);
    expect(stdout.toString()).not.toMatch(/100[01]/);
    await place.close();
    await expect(place.exec('true', options)).rejects.toMatchObject({ code: 'sandbox_failed' });
  });

  it('exposes ports under the address that E2B gives them', async () => {
    const place = await openOne();
    expect(await place.expose(8080, { signal })).toMatch(/^https:\/\/8080-sandbox\d+\.e2b\.app$/);
    await place.close();
  });

  it('keeps a sandbox alive while its rollout runs, and no longer', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const place = await openOne();
    const before = state.lives.length;
    vi.advanceTimersByTime(120_000);
    await expect.poll(() => state.lives.slice(before)).toEqual([300, 300]);
    await place.close();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('ends the sandboxes of a harness that was killed, and no others', async () => {
    const left = await Promise.all([openOne(), openOne()]);
    const [killed, others] = [...(service?.sandboxes.values() ?? [])];
    if (killed) killed.metadata.process = '1-2';
    if (others) others.metadata = { ...others.metadata, martingale: 'another machine', process: '1-2' };
    const place = await openOne();
    expect([...(service?.sandboxes.values() ?? [])]).not.toContain(killed);
    expect(service?.sandboxes.size).toBe(2);
    await Promise.all([place, ...left].map((one) => one.close()));
    expect(service?.sandboxes.size).toBe(0);
  });

  it('fails the rollout of a sandbox that has ended before its time', async () => {
    const { rollout } = await rollOut({}, 'true', {
      agent: async ({ sandbox: place }) => {
        for (const id of service?.sandboxes.keys() ?? []) await service?.end(id);
        await place.exec('true', options);
      },
    });
    expect(rollout).toMatchObject({ status: 'failed', failure: { code: 'sandbox_failed' } });
  });

  it('says what E2B says of a limit, a build that fails and a wrong key', async () => {
    state.refusal = { status: 429, message: 'you have 20 sandboxes' };
    const refused = await rollOut({}, 'true');
    expect(refused.rollout).toMatchObject({ status: 'failed', failure: { code: 'setup_failed' } });
    expect(JSON.stringify(refused.rollout)).toContain('you have 20 sandboxes');
    state.refusal = undefined;
    state.failsBuilds = true;
    const unbuilt = await rollOut(dockerfile('WORKDIR /unbuilt'), 'true');
    expect(JSON.stringify(unbuilt.rollout)).toContain('no such package');
    state.failsBuilds = false;
    const folder = await taskFolder();
    await expect(harborTasks(folder, { sandbox: e2bSandbox({ apiKey: 'other' }) })).rejects.toMatchObject({
      code: 'sandbox_away',
      message: expect.stringContaining('Invalid API key'),
    });
  });
});
