import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runGroups } from 'martingale';
import { harborTasks, type LocalSandboxOptions, localSandbox } from 'martingale/environments';
import { type ScriptedReply, scriptedModel } from 'martingale/testing';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { temporaryFolder } from '../../support/files.ts';
import { hasBubblewrap } from './has-bubblewrap.ts';
import { noImage } from './no-image.ts';
import { taskFolder } from './task-folder.ts';

const signal = AbortSignal.timeout(120_000);
const timeoutMs = 20_000;
/** Folders of this process's sandboxes. */
const sandboxes = async () =>
  (await readdir(join(tmpdir(), `martingale-sandboxes-${process.getuid?.()}`))).filter((name) =>
    name.startsWith(`${process.pid}-`),
  );
/** Goes into a folder whose path is longer than one can be. */
const deep = 'for i in $(seq 60); do mkdir $(printf "d%.0s" $(seq 200)) && cd d*; done';

async function openSandbox(options: LocalSandboxOptions = {}, env: Record<string, string> = {}) {
  const sandbox = await localSandbox(options).create({
    ...{ image: noImage, workdir: '/app', copies: [], env, hasNetwork: true, signal },
  });
  onTestFinished(() => sandbox.close());
  return async (command: string) => {
    const { stdout, stderr, exitCode } = await sandbox.exec(command, { timeoutMs, signal });
    return { text: `${stdout}${stderr}`, exitCode };
  };
}

const bash = (command: string): ScriptedReply => ({ toolCalls: [{ name: 'bash', arguments: { command } }] });

/** The reward of a rollout whose policy runs these commands. */
async function rewardAfter(folder: string, ...commands: string[]) {
  const { environment, scenarios } = await harborTasks(folder, { sandbox: localSandbox() });
  const model = scriptedModel(({ messages }) => {
    const command = commands[messages.filter(({ role }) => role === 'assistant').length];
    return command === undefined ? { text: 'done' } : bash(command);
  });
  const { groups } = await runGroups({ environment, scenarios, rolloutsPerGroup: 1, model });
  const rollout = groups[0]?.rollouts[0];
  return rollout?.status === 'completed' ? rollout.reward : rollout;
}

describe.skipIf(!hasBubblewrap)('a command in localSandbox', () => {
  it('reads no variable of the harness, not even of the sandbox itself', async () => {
    vi.stubEnv('SECRET_KEY_OF_THE_HARNESS', 'sk-never-shown');
    onTestFinished(() => void vi.unstubAllEnvs());
    const run = await openSandbox();
    const { text } = await run("for f in /proc/[0-9]*/environ; do tr '\\0' '\\n' < $f; done; env");
    expect(text).toContain('HOME=/root');
    expect(text).not.toContain('sk-never-shown');
    expect(text).not.toContain('VITEST');
  });

  it('shows nothing of itself or of its variables in the arguments of the machine', async () => {
    const run = await openSandbox({}, { TOKEN: 'tok-never-shown' });
    const running = run('until [ -e seen ]; do sleep 0.051; done; echo cmd-never-shown');
    const seen = await vi.waitFor(async () => {
      const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
      const lines = await Promise.all(
        ids.map((id) => readFile(`/proc/${id}/cmdline`, 'utf8').catch(() => '')),
      );
      expect(lines.join('\n')).toContain('sleep\x000.051');
      return lines.join('\n');
    }, 30_000);
    await run('touch seen');
    expect((await running).text).toContain('cmd-never-shown');
    expect(seen).toContain('bwrap');
    expect(seen).not.toMatch(/never-shown/);
  });

  it.each([
    ['/etc', 'hosts'],
    ['/logs', 'verifier'],
    ['/opt', 'tools'],
  ])('makes no file on the machine by a link in place of %s', async (top, name) => {
    const outside = await temporaryFolder();
    const run = await openSandbox();
    await run(
      `mv ${top} /e2; mkdir ${top}; rm -rf ${top}/*; ln -s /oldroot${outside}/made ${top}/${name}; ln -s ${outside} ${top}/folder`,
    );
    await run('true');
    await run(`echo x > ${top}/${name}; echo x > ${top}/folder/made; true`);
    expect(await readdir(outside)).toEqual([]);
  });

  it('finds a folder of the machine where it was, whatever it did around it', async () => {
    // In a sandbox, the machine's own `/dev` is not there.
    const outside = await mkdtemp('/tmp/shown-');
    onTestFinished(() => rm(outside, { recursive: true, force: true }));
    const inner = join(outside, 'deep', 'tools');
    await mkdir(inner, { recursive: true });
    await writeFile(join(inner, 'tool'), 'a tool');
    const target = await temporaryFolder();
    const run = await openSandbox({ folders: [inner] });
    await run(
      `mv ${outside} /tmp/moved; ln -s /oldroot${target} ${outside}; mv ${outside}/deep ${outside}/other`,
    );
    const { text } = await run(`cat ${inner}/tool; echo x > ${inner}/tool; mkdir ${outside}/more`);
    expect(text).toContain('a tool');
    expect(text.match(/Read-only file system/g)).toHaveLength(2);
    expect([await readdir(target), await readFile(join(inner, 'tool'), 'utf8')]).toEqual([[], 'a tool']);
  });

  it('keeps what it writes for the next one, and cannot write the root, programs or devices', async () => {
    const run = await openSandbox();
    await run('echo kept | tee /app/a /etc/b /root/c /tmp/d /var/e /home/f /opt/g > /data/h');
    expect((await run('cat /app/a /etc/b /root/c /tmp/d /var/e /home/f /opt/g /data/h')).text).toBe(
      'kept\n'.repeat(8),
    );
    for (const path of ['/x', '/usr/x', '/bin/x', '/dev/x', '/proc/sys/kernel/hostname'])
      expect((await run(`echo x > ${path}`)).text).toMatch(/Read-only file system|Permission denied/);
  });

  it('reads no keys of the machine', async () => {
    const run = await openSandbox();
    expect((await run('ls /etc/ssl/private /etc/shadow /etc/sudoers')).text).not.toContain('private:');
    expect((await run('ls /etc/ssl')).text).toContain('certs');
  });

  it('cannot change what the tests see of the machine, and they see no keys of it either', async () => {
    const sandbox = await localSandbox().create({
      ...{ image: noImage, workdir: '/app', copies: [], env: {}, hasNetwork: true, signal },
    });
    onTestFinished(() => sandbox.close());
    const run = async (command: string) =>
      (await sandbox.exec(command, { timeoutMs, signal })).stdout.toString();
    await run('echo evil > /etc/ld.so.preload; echo evil > /etc/passwd; mkdir -p /etc/ssl/private');
    sandbox.endAgent?.();
    const seen = await run(
      'ls -A /etc /etc/ssl/private; cat /etc/passwd; touch /etc/x /etc/ssl/x || echo no',
    );
    expect(seen).toContain('root:');
    expect(seen).toMatch(/no\n$/);
    expect(seen).not.toMatch(/evil|preload/);
    if (existsSync('/etc/ssl/private')) expect(seen).toContain('/etc/ssl/private:\nroot:');
  });

  it('leaves no folder behind that is too deep, or closed, to be deleted', async () => {
    const sandbox = await localSandbox().create({
      ...{ image: noImage, workdir: '/app', copies: [], env: {}, hasNetwork: true, signal },
    });
    expect(await sandboxes()).toHaveLength(1);
    await sandbox.exec(`mkdir -p closed/in; chmod 000 closed; ${deep}`, { timeoutMs, signal });
    await sandbox.close();
    expect(await sandboxes()).toEqual([]);
  });

  it('is killed when it starts too many processes', async () => {
    const run = await openSandbox({ maxProcesses: 50 });
    const { text, exitCode } = await run('for i in $(seq 200); do sleep 30 & done; wait');
    if (process.getuid?.() === 0)
      expect([text, exitCode]).toEqual(['[killed: it has more than 50 processes]\n', 137]);
    else expect(text).toContain('Resource temporarily unavailable');
    expect((await run('echo again')).text).toBe('again\n');
  });

  it('is killed when its files take too much of the disk', async () => {
    const run = await openSandbox({ maxDiskMb: 8 });
    expect((await run('head -c 9M /dev/zero > one')).text).toContain('File size limit exceeded');
    const many = await run('for i in $(seq 9); do head -c 1M /dev/zero > $i; done; sleep 30');
    expect(many).toEqual({
      text: `[killed: the files of its sandbox take more than ${8 * 1024 * 1024} bytes]\n`,
      exitCode: 137,
    });
    const hidden = await openSandbox({ maxDiskMb: 8 });
    expect(
      (await hidden(`${deep}; for i in $(seq 9); do head -c 1M /dev/zero > $i; done; sleep 30`)).exitCode,
    ).toBe(137);
    const empty = await openSandbox({ maxDiskMb: 8 });
    expect((await empty('touch $(seq 9000); sleep 30')).exitCode).toBe(137);
    const roomy = await openSandbox();
    expect((await roomy('head -c 100M /dev/zero > /dev/shm/x')).text).toContain('No space left on device');
  });
});

describe.skipIf(!hasBubblewrap)('the tests of a task', () => {
  it.each([
    [
      'programs of the agent',
      'rm -rf /bin; mkdir /bin; printf "#!/usr/bin/bash\\necho 1 > /logs/verifier/reward.txt" > /bin/bash; chmod +x /bin/bash; rm -f /lib64; ln -s /app /lib64',
    ],
    ['a loader of the agent', 'echo /app/evil.so > /etc/ld.so.preload; cp /etc/passwd /etc/ld.so.cache'],
    [
      'a start file of the agent',
      'echo "echo 1 > /logs/verifier/reward.txt; exit" | tee /root/.bashrc /root/.bash_profile /root/.profile /etc/profile /etc/bash.bashrc > /dev/null',
    ],
    [
      'a link of the agent',
      'rm -rf /logs/verifier; ln -s /app /logs/verifier; echo 1 > /app/reward.txt; ln -s /app /tests',
    ],
    ['a program left behind', '(sleep 2; echo 1 > /logs/verifier/reward.txt) & disown'],
  ])('do not rest on %s', async (_, command) => {
    expect(await rewardAfter(await taskFolder(), command)).toBe(0.25);
  });
});

describe.skipIf(!hasBubblewrap)('a task folder', () => {
  const read = (folder: string, variables: string[] = []) =>
    harborTasks(folder, { sandbox: localSandbox(), variables }).then(
      () => 'read',
      (error: { code: string; message: string }) => `${error.code}: ${error.message}`,
    );

  it.each([
    'environment/data',
    'environment/given.txt',
    'tests/more',
    'task.toml',
    'instruction.md',
    'tests',
    'environment',
  ])('is refused for a link out of it: %s', async (name) => {
    const folder = await taskFolder();
    const outside = await mkdtemp(join(tmpdir(), 'outside-'));
    onTestFinished(() => rm(outside, { recursive: true, force: true }));
    await rm(join(folder, 'answer', name), { recursive: true, force: true });
    await symlink(outside, join(folder, 'answer', name));
    expect(await read(folder)).toContain(`task_unsupported: `);
    if (name !== 'task.toml')
      expect(await read(folder)).toContain(`${name} is a link out of the task's folder, to ${outside}`);
  });

  it('may have links within it, and to nothing', async () => {
    const folder = await taskFolder({
      'environment/Dockerfile': 'FROM a\nWORKDIR /app\nCOPY linked.txt .\n',
    });
    await symlink('given.txt', join(folder, 'answer/environment/linked.txt'));
    await symlink('not-there.txt', join(folder, 'answer/environment/dangling'));
    expect(await read(folder)).toBe('read');
  });

  const asking = (value: string) => ({ 'task.toml': `[environment]\nenv = { GIVEN = "$\{${value}}" }\n` });

  it('gets only those variables of this process that it may have', async () => {
    vi.stubEnv('A_SECRET', 'sk-1');
    onTestFinished(() => void vi.unstubAllEnvs());
    const folder = await taskFolder(asking('A_SECRET'));
    expect(await read(folder)).toMatch(
      /environment\.env\.GIVEN needs the environment variable A_SECRET, which this task may not have: allow it with harborTasks\(folder, \{ variables: \['A_SECRET'\] \}\)/,
    );
    expect(await read(await taskFolder(asking('A_SECRET:-x')))).toContain('which this task may not have');
    expect(await read(folder, ['A_SECRET'])).toBe('read');
    expect(await read(await taskFolder(asking('NOT_SET_ANYWHERE:-x')))).toBe('read');
    expect(await read(await taskFolder(asking('NOT_SET_ANYWHERE')))).toContain('which is not set');
  });
});

describe.skipIf(!hasBubblewrap)('the folder of sandboxes', () => {
  /** Makes it in a temporary folder of our own. */
  async function withHome(make: (home: string) => Promise<unknown>) {
    const folder = await temporaryFolder();
    vi.stubEnv('TMPDIR', folder);
    onTestFinished(() => void vi.unstubAllEnvs());
    const home = join(folder, `martingale-sandboxes-${process.getuid?.()}`);
    await make(home);
    return home;
  }

  it('is refused as a link, and what the link leads to stays', async () => {
    const outside = await temporaryFolder();
    await mkdir(join(outside, '1-0-left'));
    const home = await withHome((path) => symlink(outside, path));
    await expect(localSandbox().check()).rejects.toMatchObject({
      code: 'sandbox_away',
      message: expect.stringContaining(`${home} is not a folder`),
    });
    expect(await readdir(outside)).toEqual(['1-0-left']);
  });

  it('is refused when others can write it', async () => {
    await withHome(async (path) => {
      await mkdir(path);
      await chmod(path, 0o777);
    });
    await expect(localSandbox().check()).rejects.toThrow(
      /and the mode 777, but must be a folder of this user alone/,
    );
  });
});
