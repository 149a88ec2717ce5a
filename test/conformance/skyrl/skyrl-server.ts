import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** How the server is started again with the same data. */
export interface SkyrlSettings {
  /** An interpreter that has the packages of requirements.txt. */
  python: string;
  /** Folder of the base model. */
  model: string;
  /** Folder for its database, checkpoints and compiled programs. */
  data: string;
  port: number;
}

/** A running SkyRL with its JAX backend on the processor. */
export interface Skyrl {
  url: string;
  /** Kills it and its engine without a warning. */
  kill: () => Promise<void>;
}

export async function startSkyrl({ python, model, data, port }: SkyrlSettings): Promise<Skyrl> {
  await mkdir(data, { recursive: true });
  const backend = {
    // Four for each service of the tests and one more: those of a service that was killed stay for five minutes.
    max_lora_adapters: 13,
    max_lora_rank: 8,
    train_micro_batch_size: 16,
    sample_max_num_sequences: 32,
  };
  const child = spawn(
    python,
    [
      ...[
        '-m',
        'uv',
        'run',
        '--no-project',
        '--python',
        python,
        '-m',
        'skyrl.tinker.api',
        '--base-model',
        model,
      ],
      ...['--backend', 'jax', '--backend-config', JSON.stringify(backend)],
      ...['--host', '127.0.0.1', '--port', String(port)],
      ...['--checkpoints-base', join(data, 'checkpoints'), '--database-url', `sqlite:///${data}/tinker.db`],
    ],
    {
      cwd: data,
      // Its processes are a group of their own, so that all of them can be killed.
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...process.env,
        PATH: [dirname(python), process.env.PATH].join(delimiter),
        PYTHONPATH: join(import.meta.dirname, 'stubs'),
        HF_HUB_OFFLINE: '1',
        JAX_PLATFORMS: 'cpu',
        UV_PYTHON_DOWNLOADS: 'never',
        JAX_COMPILATION_CACHE_DIR: join(data, 'compiled'),
        JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS: '0',
        JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES: '-1',
      },
    },
  );
  let log = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      log = `${log}${chunk}`.slice(-4000);
    });
  const url = `http://127.0.0.1:${port}`;
  try {
    await untilReady(child, url);
  } catch (error) {
    await killGroup(child);
    throw new Error(`SkyRL did not start: ${error}\n${log}`);
  }
  return { url, kill: () => killGroup(child) };
}

async function untilReady(child: ChildProcess, url: string): Promise<void> {
  for (let attempt = 0; attempt < 600; attempt++) {
    if (child.exitCode !== null) throw new Error(`it exited with code ${child.exitCode}`);
    const answer = await fetch(`${url}/api/v1/get_server_capabilities`).catch(() => null);
    if (answer?.ok) return;
    await sleep(200);
  }
  throw new Error('it does not answer');
}

async function killGroup(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.pid === undefined) return;
  const ended = once(child, 'exit');
  process.kill(-child.pid, 'SIGKILL');
  await ended;
}
