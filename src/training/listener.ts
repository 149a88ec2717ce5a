import type { RunListener } from '../progress/index.ts';

/**
 * A listener that cannot end the run that it watches: the first thing that it throws is warned about
 * (`martingale_listener_failed`), and it goes on being told.
 */
export function safeListener(listener: RunListener | undefined): RunListener {
  let hasFailed = false;
  return (event) => {
    const tell = (error: unknown) => {
      if (hasFailed) return;
      hasFailed = true;
      const what = error instanceof Error ? (error.stack ?? error.message) : String(error);
      process.emitWarning(
        `onEvent threw at an event "${event.type}". The run goes on; what it throws later is not shown. ${what}`,
        { code: 'martingale_listener_failed' },
      );
    };
    try {
      // One that is asynchronous fails later.
      const ended: unknown = listener?.(event);
      if (ended instanceof Promise) ended.catch(tell);
    } catch (error) {
      tell(error);
    }
  };
}
