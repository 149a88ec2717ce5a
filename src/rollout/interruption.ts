import { AsyncResource } from 'node:async_hooks';
import { MartingaleError } from '../contract/index.ts';
import { startTimer } from '../util/deadline.ts';
import { type RolloutFailure, toCancellation, type UnrewardedEnd } from './rollout.ts';

/** Shared by all rollouts: creating a stack trace for each would cost more than the rest of ending it. */
const rolloutEnded = new MartingaleError('rollout_ended', 'The rollout has ended.');

/** Ends a rollout from outside: at its deadline, or when the run is stopped. */
export class Interruption {
  /** Settles when the rollout is interrupted. */
  readonly happened: Promise<UnrewardedEnd>;
  /** Aborts the agent: on any interruption, and also when the agent's own time limit passes. */
  readonly agent = new AbortController();
  readonly #calls = new AbortController();
  readonly #whole = new AbortController();
  readonly #run: AbortSignal | undefined;
  readonly #settle: (interrupted: UnrewardedEnd) => void;
  readonly #timer: { clear: () => void };
  /** Runs aborts in the rollout's async scope, so that rejections they cause are attributed to this rollout. */
  readonly #scope = new AsyncResource('martingale.rollout');

  constructor(timeoutMs: number, run: AbortSignal | undefined) {
    const { promise, resolve } = Promise.withResolvers<UnrewardedEnd>();
    this.happened = promise;
    this.#settle = resolve;
    this.#run = run;
    this.#timer = startTimer(timeoutMs, () =>
      this.#interrupt({ status: 'failed', failure: tooLate(timeoutMs) }),
    );
    run?.addEventListener('abort', this.#onAbort, { once: true });
    const { signal } = this.agent;
    signal.addEventListener('abort', () => this.#calls.abort(signal.reason), { once: true });
  }

  /** Signal of the agent's model calls. */
  get calls(): AbortSignal {
    return this.#calls.signal;
  }

  /** Signal of the whole rollout: set-up, agent and rewards. */
  get signal(): AbortSignal {
    return this.#whole.signal;
  }

  /** Aborts model calls that the agent did not await: rewards would not see their answers. */
  endCalls(): void {
    this.#scope.runInAsyncScope(() => this.#calls.abort(rolloutEnded));
  }

  /** Aborts everything still running, stops the timer and detaches from the run's signal. */
  dispose(): void {
    this.#timer.clear();
    this.#run?.removeEventListener('abort', this.#onAbort);
    this.#abort(rolloutEnded);
  }

  #onAbort = (): void => {
    if (this.#run) this.#interrupt({ status: 'cancelled', failure: toCancellation(this.#run) });
  };

  #interrupt(interrupted: UnrewardedEnd): void {
    this.#settle(interrupted);
    this.#abort(new MartingaleError(interrupted.failure.code, interrupted.failure.message));
  }

  #abort(reason: MartingaleError): void {
    this.#scope.runInAsyncScope(() => {
      this.agent.abort(reason);
      this.#whole.abort(reason);
    });
  }
}

function tooLate(timeoutMs: number): RolloutFailure {
  return {
    code: 'rollout_timeout',
    message:
      `The rollout and its rewards took longer than ${timeoutMs} ms. Raise the deadline, or pass \`signal\` on and ` +
      'find what waits. `limits.turns` of the environment ends an agent that calls the model without end.',
  };
}
