import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { symlink, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runGroups } from 'martingale';
import { dockerSandbox, type HarborTasksOptions, harborTasks } from 'martingale/environments';
import { scriptedModel } from 'martingale/testing';
import { afterAll, describe, expect, it } from 'vitest';
import { fromSource } from '../../support/programs.ts';
import { startPodman } from './podman.ts';
import { dockerfile, rollOut as rollOutIn } from './roll-out.ts';
import { taskFolder } from './task-folder.ts';

const podman = await startPodman();
afterAll(() => podman?.close());

const sandbox = () => dockerSandbox({ program: podman?.program ?? '' });
const plain = dockerfile('WORKDIR /app', 'COPY given.txt .', 'RUN echo built > /built.txt');

const words = ['one', 'two', 'three', 'x'.repeat(60_000)];

/** Sends a line to a server, and gives what it has answered when its line, or the text after it, is there. */
async function ask(url: string, line: string): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  try {
    await once(socket, 'connect');
    socket.write(line);
    let answer = '';
    const isWhole = () => {
      const [, size = ''] = /^\$(\d+)\r\n/.exec(answer) ?? [];
      return answer.endsWith('\r\n') && answer.length >= Number(size);
    };
    for await (const chunk of socket) {
      answer += String(chunk);
      if (isWhole()) break;
    }
    return answer;
  } finally {
    socket.destroy();
  }
}

/** One rollout of the plain task, with these files too. */
async function rollOut(
  files: Record<string, string>,
  command: string,
  more: Partial<HarborTasksOptions> = {},
) {
  const ended = await rollOutIn({ ...plain, ...files }, command, { sandbox: sandbox(), ...more });
  return { ...ended, containers: podman?.run('ps', '--all', '--quiet') };
}

describe.skipIf(!podman)('dockerSandbox', { tags: ['long'] }, () => {
  it('runs a task in a container of its image, and removes the container', async () => {
    const { rollout, read, containers } = await rollOut(
      {},
      'pwd; cat given.txt /built.txt; echo $((QUESTION)) > answer.txt',
    );
    expect(read).toContain('/app\\n42built');
    expect(rollout).toMatchObject({ status: 'completed', reward: 1 });
    expect(rollout?.trajectory.metrics).toMatchObject({ style: 0.5 });
    expect(containers).toBe('');
  });

  it('exposes a port while the agent runs', async () => {
    const answers: string[] = [];
    const refused: unknown[] = [];
    const late: { url?: string } = {};
    const { environment, scenarios } = await harborTasks(await taskFolder(plain), {
      sandbox: sandbox(),
      agent: async ({ model, sandbox: place, signal }) => {
        await model.languageModel.doGenerate({
          prompt: [{ role: 'user', content: [{ type: 'text', text: 'hi' }] }],
        });
        await place.exec('setsid redis-server --port 6400 > /dev/null 2>&1 &', { timeoutMs: 10_000, signal });
        const url = await place.expose(6400, { signal });
        late.url = url;
        await expect.poll(() => ask(url, 'PING\r\n')).toBe('+PONG\r\n');
        answers.push(...(await Promise.all(words.map((word) => ask(url, `ECHO ${word}\r\n`)))));
        await place.expose(70_000, { signal }).catch((error: unknown) => refused.push(error));
      },
    });
    const model = scriptedModel(() => ({ text: 'I see.' }));
    await runGroups({ environment, scenarios, rolloutsPerGroup: 1, model });
    expect(answers).toEqual(words.map((word) => `$${word.length}\r\n${word}\r\n`));
    expect(refused).toMatchObject([{ code: 'sandbox_failed', message: expect.stringContaining('70000') }]);
    await expect(ask(late.url ?? '', 'PING\r\n')).rejects.toThrow('ECONNREFUSED');
  });

  it('builds an image once, and again when its files differ', async () => {
    await rollOut({}, 'true');
    const images = () => podman?.run('images', '--quiet', 'martingale-task').trim().split('\n').length ?? 0;
    const before = images();
    await rollOut({}, 'true');
    expect(images()).toBe(before);
    await rollOut({ 'environment/given.txt': '43' }, 'true');
    expect(images()).toBe(before + 1);
  });

  it('sees that files changed during a run, and takes links as they are', async () => {
    const folder = await taskFolder(plain);
    const files = join(folder, 'answer/environment');
    await symlink('nowhere', join(files, 'link'));
    const given: string[] = [];
    const { environment, scenarios } = await harborTasks(folder, {
      sandbox: sandbox(),
      agent: async ({ model, sandbox: place, signal }) => {
        await model.languageModel.doGenerate({
          prompt: [{ role: 'user', content: [{ type: 'text', text: 'hi' }] }],
        });
        given.push(String(await place.read('/app/given.txt', { signal })));
      },
    });
    const model = scriptedModel(() => ({ text: 'I see.' }));
    for (const text of ['42', '43']) {
      await writeFile(join(files, 'given.txt'), text);
      await runGroups({ environment, scenarios, rolloutsPerGroup: 1, model });
    }
    expect(given).toEqual(['42', '43']);
  });

  it('runs commands as the user of the agent, and the tests as root', async () => {
    const task = '[environment]\nnetwork_mode = "no-network"\n[agent]\nuser = "guest"\n';
    const tests = '#!/bin/bash\n[ "$(id -u)" = 0 ] && cp /tmp/who.txt /logs/verifier/reward.txt\n';
    const files = { 'task.toml': task, 'tests/test.sh': tests };
    const { rollout } = await rollOut(files, 'id -u > /tmp/who.txt');
    expect(rollout).toMatchObject({ status: 'completed', reward: 1000 });
  });

  it('kills a command at its timeout, with what it left in the background', async () => {
    const command = 'setsid sleep 1000 & sleep 1000';
    const tests =
      '#!/bin/bash\nn=0; for p in /proc/[0-9]*; do c=$(cat $p/cmdline 2>/dev/null | { read -r -d "" a; read -r -d "" b; echo "$b"; }); [ "$c" = 1000 ] && n=$((n+1)); done; echo $n > /logs/verifier/reward.txt\n';
    const { rollout, read } = await rollOut({ 'tests/test.sh': tests }, command, { commandTimeoutMs: 2000 });
    expect(read).toContain('killed after 2 s');
    expect(rollout).toMatchObject({ status: 'completed', reward: 0 });
  });

  it('kills a command whose signal aborts', async () => {
    let left = '';
    await rollOut({}, '', {
      agent: async ({ sandbox: place, signal }) => {
        const stop = new AbortController();
        const started = place.exec('touch /begun; sleep 1234', { timeoutMs: 60_000, signal: stop.signal });
        while ((await place.read('/begun', { signal })) === null) signal.throwIfAborted();
        stop.abort(new Error('enough'));
        await expect(started).rejects.toThrow('enough');
        const { stdout } = await place.exec('cat /proc/[0-9]*/cmdline', { timeoutMs: 5000, signal });
        left = stdout.toString();
      },
    });
    expect(left).toContain('infinity');
    expect(left).not.toContain('1234');
  });

  it('names a build that fails and a container that ends, as failed rollouts', async () => {
    const broken = await rollOut(dockerfile('RUN false'), 'true');
    expect(broken.rollout).toMatchObject({
      failure: { code: 'setup_failed', message: expect.stringMatching(/docker build` failed/) },
    });
    const ended = await rollOut({}, '', {
      agent: async ({ sandbox: place, signal }) => {
        podman?.run('kill', '--all');
        await place.exec('true', { timeoutMs: 5000, signal });
      },
    });
    expect(ended.rollout).toMatchObject({
      failure: { code: 'sandbox_failed', message: expect.stringMatching(/container ended/) },
    });
    expect(ended.containers).toBe('');
  });

  it('runs an agent of ours, with files and commands, until its time is over', async () => {
    const folder = await taskFolder(plain);
    const { environment, scenarios } = await harborTasks(folder, {
      sandbox: sandbox(),
      agent: async ({ model, sandbox: place, instruction, signal }) => {
        await model.languageModel.doGenerate({
          prompt: [{ role: 'user', content: [{ type: 'text', text: instruction }] }],
        });
        expect((await place.read('/app/given.txt', { signal }))?.toString()).toBe('42');
        expect(await place.read('/app/nothing.txt', { signal })).toBe(null);
        await place.write('/app/deep/er/answer.txt', '42', { signal });
        await place.exec('cp deep/er/answer.txt .', { timeoutMs: 5000, signal });
      },
    });
    const model = scriptedModel(() => ({ text: 'I see.' }));
    const { groups } = await runGroups({ environment, scenarios, rolloutsPerGroup: 1, model });
    expect(groups[0]?.rollouts[0]).toMatchObject({ status: 'completed', reward: 1 });
  });

  it('removes the containers of a harness that was killed', async () => {
    const program = fileURLToPath(new URL('./killed-docker.ts', import.meta.url));
    const child = spawn(process.execPath, [...fromSource, program, podman?.program ?? ''], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(child.stdout, 'data');
    expect(podman?.run('ps', '--quiet').trim().split('\n')).toHaveLength(1);
    child.kill('SIGKILL');
    await once(child, 'exit');
    const { containers } = await rollOut({}, 'true');
    expect(containers).toBe('');
  });
});

it('a machine without the program is told so', async () => {
  const folder = await taskFolder();
  const kind = dockerSandbox({ program: 'no-such-docker' });
  await expect(harborTasks(folder, { sandbox: kind })).rejects.toMatchObject({
    code: 'sandbox_away',
    message: expect.stringMatching(/no-such-docker.*not installed/),
  });
});

it('a container service that is away is named with its words', async () => {
  const folder = await taskFolder();
  const kind = dockerSandbox({ program: 'false' });
  await expect(harborTasks(folder, { sandbox: kind })).rejects.toMatchObject({ code: 'sandbox_away' });
});

it('options of the built-in agent are refused beside an agent', async () => {
  const options = { sandbox: dockerSandbox(), agent: () => {}, maxOutput: 3 };
  await expect(harborTasks('nowhere', options)).rejects.toThrow(
    /`maxOutput` is for rollouts without an `agent`/,
  );
});
