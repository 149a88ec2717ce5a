import { duration } from '../progress/index.ts';

const pauseMs = 100;
/** Between two lines where there is no terminal. */
const plainPauseMs = 10_000;

/** How far a task is, in whatever it counts. */
type ShowTask = (done: number, total: number, what?: string) => void;

/**
 * Shows on a line of a terminal how far a task is, and how long the rest takes at the pace so far. The line goes when the
 * task is done, or with `clear`. Elsewhere it writes a line at the first call, and another one every ten seconds.
 */
export function taskBar(stderr: { isTTY?: boolean; write: (text: string) => unknown } = process.stderr): {
  show: ShowTask;
  clear: () => void;
} {
  const startedAt = performance.now();
  let shownAt = Number.NEGATIVE_INFINITY;
  const clear = () => {
    if (stderr.isTTY && shownAt > 0) stderr.write('\r\u001b[K');
  };
  return {
    clear,
    show(done, total, what = '') {
      const now = performance.now();
      if (done >= total) return clear();
      if (now - shownAt < (stderr.isTTY ? pauseMs : plainPauseMs)) return;
      shownAt = now;
      const share = total === 0 ? 1 : done / total;
      const percent = `${Math.floor(share * 100)}%`;
      const bar = '█'.repeat(Math.round(share * 20)).padEnd(20, '░');
      const left = done > 0 ? `, ${duration(((now - startedAt) / done) * (total - done))} left` : '';
      const text = `${percent}${left}${what === '' ? '' : `  ${what}`}`;
      stderr.write(stderr.isTTY ? `\r\u001b[K${bar} ${text}` : `${text}\n`);
    },
  };
}
