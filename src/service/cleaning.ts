import type { ServiceContext } from './context.ts';
import { messageOf } from './errors.ts';
import { removeUnused } from './store/remove-unused.ts';

const everyMs = 3_600_000;

/** Removes what is no longer used, every hour until the service closes. */
export function keepClean(service: Pick<ServiceContext, 'store' | 'files' | 'log' | 'closing'>): void {
  const { closing, log } = service;
  const started = Date.now() - performance.now();
  const clean = async () => {
    try {
      // Whatever way the clock jumps, nothing is older for it.
      await removeUnused({ ...service, now: Math.min(Date.now(), started + performance.now()) });
    } catch (error) {
      // The rest goes an hour later, or at the next start.
      if (!closing.aborted) log({ level: 'warn', event: 'unused_kept', error: messageOf(error) });
    }
  };
  const timer = setInterval(clean, everyMs).unref();
  closing.addEventListener('abort', () => clearInterval(timer), { once: true });
}
