import { readFileSync } from 'node:fs';

/**
 * Processor time of a process or thread in milliseconds, and whether it runs now rather than waits. Null on other systems
 * than Linux, and when it has ended.
 * @param folder Its folder, such as `/proc/42` or `/proc/self/task/43`.
 */
export function linuxTime(folder: string): { processorMs: number; runs: boolean } | null {
  try {
    const stat = readFileSync(`${folder}/stat`, 'utf8');
    // The name before them may have spaces: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    // In hundredths of a second.
    return { processorMs: 10 * (Number(fields[11]) + Number(fields[12])), runs: fields[0] === 'R' };
  } catch {
    return null;
  }
}
