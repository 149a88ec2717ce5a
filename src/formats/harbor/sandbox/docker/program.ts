import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { hasCode } from '../../../../util/error.ts';
import { HarborError } from '../../errors.ts';
import { type ProcessResult, runProcess } from '../run-process.ts';

/** Longest time of a command, if nothing else is said, in milliseconds. */
export const dockerMs = 120_000;

interface RunOptions {
  stdin?: Uint8Array;
  /** Variables of the program. Default: the variables of this process. */
  env?: NodeJS.ProcessEnv;
  timeoutMs?: number;
  maxBytes?: number;
  signal: AbortSignal;
}

/** The program `docker`. */
export class Docker {
  readonly #program: string;

  constructor(program: string) {
    this.#program = program;
  }

  /** @throws HarborError (`sandbox_away`) if the program is not there; the signal's reason. */
  async run(args: readonly string[], options: RunOptions): Promise<ProcessResult> {
    const { timeoutMs = dockerMs, maxBytes = 65_536 } = options;
    return runProcess(this.#program, args, { ...options, timeoutMs, maxBytes }).catch((error: unknown) => {
      if (hasCode(error, 'ENOENT')) throw this.away('the program is not installed');
      throw error;
    });
  }

  /** Starts a command that goes on until its input or output ends. */
  start(args: readonly string[]): ChildProcessWithoutNullStreams {
    return spawn(this.#program, args);
  }

  /** Runs a command that must succeed, and gives what it prints. @throws HarborError (`sandbox_failed`) */
  async must(args: readonly string[], options: RunOptions): Promise<string> {
    const { exitCode, stdout, stderr, isTimedOut } = await this.run(args, options);
    if (exitCode === 0) return stdout.toString().trim();
    const why = isTimedOut ? 'it took too long' : stderr.toString().trim().slice(-1000);
    throw new HarborError('sandbox_failed', `\`${this.#program} ${args[0]}\` failed: ${why}`);
  }

  away(why: string): HarborError {
    const message = `dockerSandbox() cannot use \`${this.#program}\`: ${why.trim().slice(0, 500)}`;
    return new HarborError('sandbox_away', message);
  }
}
