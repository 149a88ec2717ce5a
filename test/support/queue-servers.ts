import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { chown, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './free-port.ts';

/** A real server of its own for a test, whose data is gone with it. */
export interface QueueServer {
  /** What clients connect to. */
  url: string;
  /** Ends the server as a crash would, and waits until it is gone. */
  kill(): Promise<void>;
  /** Starts it again on the same port, with what it had on disk. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

/** Debian keeps the programs of each version of PostgreSQL in a folder of its own. */
const ofDebian = '/usr/lib/postgresql';
const versions = existsSync(ofDebian) ? readdirSync(ofDebian).map((name) => join(ofDebian, name, 'bin')) : [];

const isThere = (program: string): string | undefined =>
  ['/usr/bin', '/usr/local/bin', ...versions, '/opt/homebrew/bin']
    .map((folder) => join(folder, program))
    .find((path) => existsSync(path));

const redis = isThere('redis-server');
const postgres = isThere('postgres');
const initdb = isThere('initdb');

export const hasRedis = redis !== undefined;
export const hasPostgres = postgres !== undefined && initdb !== undefined;

/** Longest time of a start, in milliseconds. */
const startMs = 30_000;

interface Program {
  url: string;
  folder: string;
  start: () => ChildProcess;
  /** Printed when it answers. */
  ready: RegExp;
}

async function open({ url, folder, start, ready }: Program): Promise<QueueServer> {
  let child: ChildProcess | undefined;
  const begin = async () => {
    const started = start();
    child = started;
    let printed = '';
    const answers = Promise.withResolvers<void>();
    const read = (data: Buffer) => {
      printed += data.toString();
      if (ready.test(printed)) answers.resolve();
    };
    started.stdout?.on('data', read);
    started.stderr?.on('data', read);
    started.once('exit', (code) => answers.reject(new Error(`It ended with ${code}: ${printed}`)));
    const late = setTimeout(() => answers.reject(new Error(`It does not answer: ${printed}`)), startMs);
    await answers.promise.finally(() => clearTimeout(late));
  };
  const end = async (signal: 'SIGKILL' | 'SIGINT') => {
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  };
  await begin();
  return {
    url,
    kill: () => end('SIGKILL'),
    restart: begin,
    close: async () => {
      await end('SIGINT');
      await rm(folder, { recursive: true, force: true });
    },
  };
}

const newFolder = () => mkdtemp(join(tmpdir(), 'martingale-queue-'));

export async function startRedis(): Promise<QueueServer> {
  const [folder, port] = [await newFolder(), await freePort()];
  return open({
    url: `redis://127.0.0.1:${port}`,
    folder,
    start: () =>
      spawn(redis ?? '', ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', folder, '--save', '']),
    ready: /Ready to accept connections/,
  });
}

/** Its programs refuse to run as root: then it runs as `nobody`. */
export async function startPostgres(): Promise<QueueServer> {
  const [folder, port] = [await newFolder(), await freePort()];
  const data = join(folder, 'data');
  const user = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
  await mkdir(data);
  if (user.uid !== undefined) for (const path of [folder, data]) await chown(path, user.uid, user.gid);
  execFileSync(initdb ?? '', ['-D', data, '-U', 'postgres', '-A', 'trust', '--no-sync'], {
    ...user,
    cwd: folder,
    stdio: 'ignore',
  });
  const flags = ['-D', data, '-p', `${port}`, '-h', '127.0.0.1', '-k', folder, '-F'];
  return open({
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    folder,
    start: () => spawn(postgres ?? '', flags, { ...user, cwd: folder }),
    ready: /database system is ready to accept connections/,
  });
}
