import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import { callsTo, type Json } from '../../service/harness.ts';
import { fromSource } from '../../support/programs.ts';

const program = fileURLToPath(new URL('storage-service.ts', import.meta.url));

export interface Started extends ReturnType<typeof callsTo> {
  /** The lines of the service's log so far. */
  log: Json[];
  url: string;
  pid: number;
  stop: () => Promise<void>;
}

export interface Launch {
  execArgv?: string[];
  env?: NodeJS.ProcessEnv;
  /** Command that runs Node, such as a shell that sets limits. Node's command line is appended. */
  under?: [string, ...string[]];
}

/** Starts a service in its own process. If it does not start, returns its output. */
export async function startIn(
  dataFolder: string,
  { execArgv = [], env = process.env, under }: Launch = {},
): Promise<Started | { refused: Json }> {
  const command = [process.execPath, ...fromSource, ...execArgv, program, dataFolder];
  const [first = '', ...rest] = [...(under ?? []), ...command];
  const child = spawn(first, rest, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  onTestFinished(() => {
    child.kill('SIGKILL');
  });
  const log: Json[] = [];
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => {
    const lines = (errors + chunk.toString('utf8')).split('\n');
    errors = lines.pop() ?? '';
    for (const line of lines) if (line.startsWith('{')) log.push(JSON.parse(line));
  });
  let said = '';
  for await (const chunk of child.stdout) {
    said += String(chunk);
    if (said.includes('\n')) break;
  }
  const refused = /^refused (.*)$/m.exec(said)?.[1];
  if (refused !== undefined) return { refused: JSON.parse(refused) };
  const url = /^url (\S+)$/m.exec(said)?.[1];
  if (url === undefined || child.pid === undefined) throw new Error(`it did not start: ${said}${errors}`);
  return {
    ...callsTo(url),
    url,
    log,
    pid: child.pid,
    stop: async () => {
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
    },
  };
}

/** Starts a service that must start. */
export async function start(dataFolder: string, launch: Launch = {}): Promise<Started> {
  const started = await startIn(dataFolder, launch);
  if ('refused' in started) throw new Error(JSON.stringify(started.refused));
  return started;
}
