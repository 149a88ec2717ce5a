import { posix } from 'node:path';
import { HarborError } from './errors.ts';

export interface Copy {
  /** Relative to `environment/`. */
  from: string;
  /** Absolute, or `.`: the sandbox's working directory. */
  to: string;
}

/**
 * Reads the lines of a Dockerfile that need no image: `WORKDIR` and `COPY`. `FROM` means the programs of this machine.
 * @throws HarborError (`task_unsupported`) that names the first other line
 */
export function readDockerfile(text: string, file: string): { workdir: string | null; copies: Copy[] } {
  let workdir: string | null = null;
  const copies: Copy[] = [];
  for (const line of text.split('\n').map((raw) => raw.trim())) {
    if (line === '' || line.startsWith('#')) continue;
    const [word = '', ...rest] = line.split(/\s+/);
    const [first = '', second = ''] = rest;
    const at = workdir ?? '/';
    const isPlain = !/[$"'[\\*?]|--/.test(line);
    if (word.toUpperCase() === 'FROM' && copies.length === 0 && workdir === null) continue;
    if (word.toUpperCase() === 'WORKDIR' && isPlain && rest.length === 1) workdir = posix.resolve(at, first);
    else if (
      word.toUpperCase() === 'COPY' &&
      isPlain &&
      rest.length === 2 &&
      !first.split('/').includes('..')
    )
      copies.push({ from: first, to: posix.resolve(at, second) + (/(^|\/)\.?$/.test(second) ? '/' : '') });
    else
      throw new HarborError(
        'task_unsupported',
        `${file}: "${line}" needs dockerSandbox(): without it, only FROM, WORKDIR and COPY of one path are done.`,
      );
  }
  return { workdir, copies };
}
