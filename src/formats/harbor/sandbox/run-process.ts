import { type ChildProcess, spawn } from 'node:child_process';
import { clearTimeout, setTimeout } from 'node:timers';

interface ProcessOptions {
  stdin?: Uint8Array;
  /** Input on file descriptor 4. */
  settings?: Uint8Array;
  /** Its environment variables. Default: of this process. */
  env?: NodeJS.ProcessEnv;
  /** Gets the output of file descriptor 3 as it comes. */
  onStatus?: (text: string) => void;
  timeoutMs: number;
  /** Bytes kept of each output. */
  maxBytes: number;
  signal: AbortSignal;
}

export interface ProcessResult {
  /** Null for a process that a signal ended. */
  exitCode: number | null;
  isTimedOut: boolean;
  stdout: Buffer;
  stderr: Buffer;
  /** Output of file descriptor 3. */
  status: string;
  isCut: boolean;
}

/** Runs a program in a process group of its own, which is killed at the timeout and when the signal aborts. */
export async function runProcess(
  program: string,
  args: readonly string[],
  { stdin, settings, env, onStatus, timeoutMs, maxBytes, signal }: ProcessOptions,
): Promise<ProcessResult> {
  signal.throwIfAborted();
  const child = spawn(program, args, {
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe', 'pipe', 'pipe'],
    ...(env ? { env } : {}),
  });
  let isTimedOut = false;
  const onAbort = () => killGroup(child);
  const timer = setTimeout(() => {
    isTimedOut = true;
    killGroup(child);
  }, timeoutMs);
  signal.addEventListener('abort', onAbort, { once: true });
  const outputs = [1, 2, 3].map((descriptor) => collect(child, descriptor, maxBytes));
  // A program may end before it has read everything.
  child.stdin?.on('error', () => undefined);
  child.stdin?.end(stdin);
  const input = child.stdio[4];
  input?.on('error', () => undefined);
  if (input && 'end' in input) input.end(settings);
  if (onStatus) child.stdio[3]?.on('data', (chunk: Buffer) => onStatus(chunk.toString()));
  try {
    const { promise, resolve, reject } = Promise.withResolvers<number | null>();
    child.once('error', reject);
    child.once('close', resolve);
    const exitCode = await promise;
    signal.throwIfAborted();
    const [stdout = empty, stderr = empty, status = empty] = outputs.map(({ chunks }) =>
      Buffer.concat(chunks),
    );
    const isCut = outputs.some((output) => output.isCut);
    return { exitCode, isTimedOut, stdout, stderr, status: status.toString(), isCut };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
  }
}

const empty = Buffer.alloc(0);

/** Keeps the beginning of an output and reads the rest, so that the program does not wait. */
function collect(child: ChildProcess, descriptor: number, maxBytes: number) {
  const output = { chunks: [] as Buffer[], isCut: false };
  let kept = 0;
  const stream = child.stdio[descriptor];
  stream?.on('error', () => undefined);
  stream?.on('data', (chunk: Buffer) => {
    const part = chunk.subarray(0, maxBytes - kept);
    kept += part.length;
    if (part.length > 0) output.chunks.push(part);
    if (part.length < chunk.length) output.isCut = true;
  });
  return output;
}

function killGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}
