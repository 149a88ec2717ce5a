import { HarborError } from '../errors.ts';
import type { BareSandbox, FileOptions, Sandbox } from './sandbox.ts';

const fileMs = 120_000;
const maxFileBytes = 512 * 1024 * 1024;

/** Exit code of ours for a file that is not there. */
const notThere = 44;

/** A sandbox whose files are read and written by commands in it. */
export function withFiles(bare: BareSandbox): Sandbox {
  const run = (command: string, path: string, options: FileOptions, stdin?: Uint8Array) =>
    bare.exec(command, {
      cwd: '/',
      env: { FILE: path },
      timeoutMs: options.timeoutMs ?? fileMs,
      maxBytes: maxFileBytes,
      signal: options.signal,
      ...(stdin ? { stdin } : {}),
    });
  return {
    exec: (command, options) => bare.exec(command, options),
    async expose(port, options) {
      if (!Number.isInteger(port) || port < 1 || port > 65_535)
        throw failed(`Port ${port} could not be exposed`, 'pass one from 1 to 65535');
      return bare.expose(port, options);
    },
    endAgent: () => bare.endAgent?.(),
    close: () => bare.close(),
    async read(path, options) {
      const command = `if [ -f "$FILE" ]; then cat -- "$FILE"; else exit ${notThere}; fi`;
      const { exitCode, stdout, stderr, isCut } = await run(command, path, options);
      if (exitCode === notThere) return null;
      if (exitCode === 0 && !isCut) return stdout;
      throw failed(`${path} could not be read`, isCut ? 'it is too large' : stderr);
    },
    async write(path, content, options) {
      const command = 'mkdir -p -- "$(dirname -- "$FILE")" && cat > "$FILE"';
      const { exitCode, stderr } = await run(command, path, options, Buffer.from(content));
      if (exitCode !== 0) throw failed(`${path} could not be written`, stderr);
    },
  };
}

/** Sets the default user of a sandbox's commands. */
export function asUser(sandbox: Sandbox, user: string | number | undefined): Sandbox {
  if (user === undefined) return sandbox;
  const { exec } = sandbox;
  return withFiles({
    exec: (command, options) => exec(command, { user: String(user), ...options }),
    expose: (port, options) => sandbox.expose(port, options),
    endAgent: () => sandbox.endAgent?.(),
    close: () => sandbox.close(),
  });
}

/** A sandbox that can be used until `end`, which kills running commands and refuses others. */
export function untilEnd(sandbox: Sandbox): { sandbox: Sandbox; end(): Promise<void> } {
  const ended = new AbortController();
  const running = new Set<Promise<unknown>>();
  const given = withFiles({
    exec(command, options) {
      const signal = AbortSignal.any([options.signal, ended.signal]);
      const result = sandbox.exec(command, { ...options, signal });
      running.add(result);
      const done = () => running.delete(result);
      result.then(done, done);
      return result;
    },
    expose: (port, { signal }) => sandbox.expose(port, { signal: AbortSignal.any([signal, ended.signal]) }),
    close: () => sandbox.close(),
  });
  return {
    sandbox: given,
    async end() {
      const why = 'the agent has ended, or its time is over: its sandbox takes no more commands';
      ended.abort(new HarborError('sandbox_failed', why));
      await Promise.allSettled(running);
    },
  };
}

const failed = (what: string, why: Buffer | string): HarborError =>
  new HarborError('sandbox_failed', `${what}: ${why.toString().slice(0, 500) || 'it took too long'}`);
