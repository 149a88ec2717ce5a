/** How a model call ended, for whoever decides how many may be in flight. */
export interface CallOutcome {
  /** `rate_limited`: the service answered 429 or 503 at least once, whatever came of it then. */
  status: 'answered' | 'rate_limited' | 'failed';
  /** From having the place to the end of the answer, in milliseconds. */
  durationMs: number;
}

/** A place among the model calls in flight. Release it once. */
export interface CallPlace {
  release(outcome: CallOutcome): void;
}

/** One bound on the model calls in flight, shared by all handles and endpoints that it is given to. */
export interface CallBudget {
  /** Waits for a place, first come first served. @throws the reason of `signal`. */
  acquire(signal?: AbortSignal): Promise<CallPlace>;
}
