import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fromSource, root } from '../../support/programs.ts';

export interface ServeSettings {
  /** Address of SkyRL. */
  tinkerUrl: string;
  /** Folder of the base model. */
  checkpoint: string;
  /** The service's data folder. */
  data: string;
  port: number;
  apiKey: string;
}

export interface Served {
  url: string;
  /** Kills it without a warning. */
  kill: () => Promise<void>;
}

/** `martingale serve --engine tinker` in a process of its own, once it is ready. */
export async function serve({ tinkerUrl, checkpoint, data, port, apiKey }: ServeSettings): Promise<Served> {
  const child = spawn(
    process.execPath,
    [
      ...[...fromSource, 'src/cli/main.ts', 'serve', '--port', String(port), '--data', data],
      ...['--engine', 'tinker', '--tinker-url', tinkerUrl, '--checkpoint', checkpoint, '--lora-rank', '8'],
    ],
    { cwd: root, env: { ...process.env, MARTINGALE_API_KEY: apiKey }, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let printed = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (chunk) => {
      printed = `${printed}${chunk}`.slice(-4000);
    });
  await new Promise<void>((resolve, reject) => {
    child.stdout.on('data', () => printed.includes('Ctrl-C') && resolve());
    child.once('exit', (code) => reject(new Error(`The service ended with code ${code}: ${printed}`)));
  });
  return { url: `http://127.0.0.1:${port}`, kill: () => killProcess(child) };
}

async function killProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}
