export interface Interrupt {
  /** Aborted by the first Ctrl-C, or by SIGTERM. */
  readonly signal: AbortSignal;
  /** Gives the signals back to the process. */
  release: () => void;
}

/** Exit status of a program that an interrupt ended, as shells expect it. */
export const interruptedStatus = 130;

/** One Ctrl-C comes more than once where npm or tsx, which the terminal told as well, pass it on. */
const echoMs = 500;

/**
 * Lets the first interrupt end the program in good order, and the second at once.
 * `onFirst` tells the person that the first has been heard.
 */
export function listenForInterrupt(onFirst: () => void): Interrupt {
  const controller = new AbortController();
  let firstAtMs = 0;
  const interrupted = () => {
    if (controller.signal.aborted) {
      if (performance.now() - firstAtMs >= echoMs) process.exit(interruptedStatus);
      return;
    }
    firstAtMs = performance.now();
    controller.abort(new DOMException('Interrupted.', 'AbortError'));
    onFirst();
  };
  process.on('SIGINT', interrupted);
  process.on('SIGTERM', interrupted);
  return {
    signal: controller.signal,
    release: () => {
      process.off('SIGINT', interrupted);
      process.off('SIGTERM', interrupted);
    },
  };
}
