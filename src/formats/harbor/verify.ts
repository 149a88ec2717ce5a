import { stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { z } from 'zod';
import { HarborError } from './errors.ts';
import { runProcess } from './sandbox/run-process.ts';
import type { Sandbox } from './sandbox/sandbox.ts';
import type { Task } from './task.ts';

const uploadMs = 120_000;
const maxUpload = 512 * 1024 * 1024;

/** Puts what a task gives its agent into the sandbox. */
export async function copyFiles(sandbox: Sandbox, task: Task, signal: AbortSignal): Promise<void> {
  for (const { from, to } of task.copies)
    await upload(sandbox, join(task.folder, 'environment', from), to, signal);
}

/**
 * Copies a file, or what is in a folder, to an absolute path of the sandbox, or to `.`, its working directory. A path with
 * a `/` at its end is a folder.
 */
async function upload(sandbox: Sandbox, from: string, to: string, signal: AbortSignal): Promise<void> {
  const isFolder = (await stat(from)).isDirectory();
  const [at, name] = isFolder ? [from, '.'] : [dirname(from), basename(from)];
  const settings = { timeoutMs: uploadMs, maxBytes: maxUpload, signal };
  const packed = await runProcess('tar', ['-C', at, '-cf', '-', '--', name], settings);
  const cause = packed.stderr.toString().slice(0, 500);
  if (packed.exitCode !== 0 || packed.isCut)
    throw new HarborError('sandbox_failed', `${from} could not be packed: ${cause || 'it is too large'}`);
  const env = { TO: to, NAME: name };
  const command = isFolder
    ? 'mkdir -p "$TO" && tar --no-same-owner -C "$TO" -xf -'
    : 'case $TO in */) to=$TO$NAME;; *) to=$TO;; esac; mkdir -p "$(dirname "$to")" && tar --no-same-owner --transform="s|.*|$(basename "$to")|" -C "$(dirname "$to")" -xf -';
  const cwd = to === '.' ? {} : { cwd: '/' };
  await must(sandbox, command, { ...cwd, env, stdin: packed.stdout, signal });
}

const userOf = ({ user }: { user?: string | number | undefined }) =>
  user === undefined ? {} : { user: String(user) };

interface MustOptions {
  /** Default: the sandbox's working directory. */
  cwd?: string;
  env?: Readonly<Record<string, string>>;
  stdin?: Uint8Array;
  signal: AbortSignal;
}

/** Runs a command of ours, which fails only if the sandbox does. */
async function must(sandbox: Sandbox, command: string, options: MustOptions): Promise<void> {
  const { exitCode, stderr } = await sandbox.exec(command, { timeoutMs: uploadMs, ...options });
  if (exitCode === 0) return;
  const said = stderr.toString().slice(0, 500);
  throw new HarborError('sandbox_failed', `The sandbox could not run "${command}": ${said}`);
}

/**
 * Runs the tests of a task in the sandbox as the agent left it, and reads the rewards they write.
 * @throws HarborError (`verifier_timeout`, `reward_unreadable`, `sandbox_failed`)
 */
export async function verify(
  sandbox: Sandbox,
  task: Task,
  signal: AbortSignal,
): Promise<Record<string, number>> {
  // The agent may have put files there.
  const empty =
    'shopt -s dotglob nullglob; for d in /tests /logs/verifier; do [ -d $d ] && [ ! -L $d ] || rm -f $d; mkdir -p $d && rm -rf -- $d/* || exit; done; mkdir -p /logs/agent';
  await must(sandbox, empty, { cwd: '/', signal });
  await upload(sandbox, join(task.folder, 'tests'), '/tests', signal);
  await must(sandbox, 'chmod +x /tests/test.sh', { cwd: '/', signal });
  const { timeout_sec: seconds } = task.config.verifier;
  const { exitCode } = await sandbox.exec('/tests/test.sh > /logs/verifier/test-stdout.txt 2>&1', {
    ...userOf(task.config.verifier),
    ...{ env: task.verifierEnv, timeoutMs: seconds * 1000, signal },
  });
  if (exitCode === null)
    throw new HarborError(
      'verifier_timeout',
      `The tests of ${task.name} did not end within verifier.timeout_sec (${seconds}).`,
    );
  const json = await read(sandbox, '/logs/verifier/reward.json', signal);
  if (json !== null) return rewardsIn(json, task);
  const text = await read(sandbox, '/logs/verifier/reward.txt', signal);
  if (text !== null) return { reward: numberIn(text, task) };
  const said = await read(sandbox, '/logs/verifier/test-stdout.txt', signal);
  throw new HarborError(
    'reward_unreadable',
    `The tests of ${task.name} wrote neither reward.json nor reward.txt to /logs/verifier: ${said?.slice(-500)}`,
  );
}

/** The text of a file; null if there is none. */
const read = async (sandbox: Sandbox, path: string, signal: AbortSignal): Promise<string | null> =>
  (await sandbox.read(path, { signal }))?.toString() ?? null;

const rewardsSchema = z
  .record(z.string(), z.union([z.number(), z.boolean().transform(Number)]))
  .refine((rewards) => 'reward' in rewards || Object.keys(rewards).length === 1, {
    message: 'it needs the key "reward", or one key only',
  });

function rewardsIn(text: string, task: Task): Record<string, number> {
  try {
    return rewardsSchema.parse(JSON.parse(text));
  } catch (cause) {
    throw unreadable(task, 'reward.json', text, cause);
  }
}

function numberIn(text: string, task: Task): number {
  const value = text.trim() === '' ? Number.NaN : Number(text);
  if (Number.isFinite(value)) return value;
  throw unreadable(task, 'reward.txt', text);
}

const unreadable = (task: Task, file: string, text: string, cause?: unknown) =>
  new HarborError(
    'reward_unreadable',
    `${file} of the tests of ${task.name} has no finite rewards: ${text.slice(0, 200)}`,
    { cause },
  );
