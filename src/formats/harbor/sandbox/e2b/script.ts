import type { ExecResult } from '../sandbox.ts';

/**
 * A command for `bash -l`, which E2B runs. It reads a file and keeps the beginning of its outputs, as base64 because
 * E2B decodes outputs as text. The output of the login comes before the `@`; `PATH` stays as it was before the login.
 */
export function script(
  command: string,
  { mark, input, maxBytes }: Record<'mark' | 'input', string> & { maxBytes: number },
): string {
  const path =
    'while IFS= read -r -d "" v; do case $v in PATH=*) export "$v";; esac; done < /proc/$$/environ';
  const remove = input === '/dev/null' ? '' : `rm -f ${input};`;
  const keep = `{ echo @; head -c ${maxBytes + 1} | base64; cat > /dev/null; }`;
  const marked = `env ${mark} bash -c ${quoted(command)}`;
  const both = `( ${marked} 2>&1 1>&3 3>&- | ${keep} >&2; exit \${PIPESTATUS[0]} ) 3>&1 | ${keep}`;
  return `${path}; exec < ${input}; ${remove} ${both}; exit \${PIPESTATUS[0]}`;
}

/** What a command that ran such a script has written. */
export function resultOf(
  written: Partial<Record<'stdout' | 'stderr', string>>,
  exitCode: number | null,
  maxBytes: number,
): ExecResult {
  const bytesOf = (text = '') => Buffer.from(text.slice(text.lastIndexOf('@') + 1), 'base64');
  const [stdout, stderr] = [bytesOf(written.stdout), bytesOf(written.stderr)];
  const isCut = stdout.length > maxBytes || stderr.length > maxBytes;
  return { exitCode, stdout: stdout.subarray(0, maxBytes), stderr: stderr.subarray(0, maxBytes), isCut };
}

export const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
