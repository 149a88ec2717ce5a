import { AsyncLocalStorage } from 'node:async_hooks';
import { MartingaleError } from '../contract/index.ts';
import { startTimer } from '../util/deadline.ts';
import type { RolloutFailure } from './rollout.ts';
import { toCancellation } from './rollout.ts';

export interface Interrupted {
  status: 'failed' | 'cancelled';
  failure: RolloutFailure;
}

/** One for all: a stack trace for each of a run's rollouts would cost more than the rest of their ending. */
const rolloutEnded = new MartingaleError('rollout_ended', 'The rollout has ended.');

/** What ends a rollout from outside: its deadline, or the end of the run. */
export class Interruption {
  /** Settles when the rollout is interrupted. */
  readonly happened: Promise<Interrupted>;
  /** Of the agent: aborted in every case, also when its time limit passes. */
  readonly agent = new AbortController();
  readonly #calls = new AbortController();
  readonly #whole = new AbortController();
  readonly #run: AbortSignal | undefined;
  readonly #settle: (interrupted: Interrupted) => void;
  readonly #timer: { clear: () => void };
  /** What an abort rejects belongs to the rollout, whoever aborts. */
  readonly #inScope: (work: () => void) => void = AsyncLocalStorage.snapshot();

  constructor(timeoutMs: number, run: AbortSignal | undefined) {
    const { promise, resolve } = Promise.withResolvers<Interrupted>();
    this.happened = promise;
    this.#settle = resolve;
    this.#run = run;
    this.#timer = startTimer(timeoutMs, () =>
      this.#interrupt({ status: 'failed', failure: tooLate(timeoutMs) }),
    );
    run?.addEventListener('abort', this.#follow, { once: true });
    const { signal } = this.agent;
    signal.addEventListener('abort', () => this.#calls.abort(signal.reason), { once: true });
  }

  /** Of the agent's model calls. */
  get calls(): AbortSignal {
    return this.#calls.signal;
  }

  /** Of everything in the rollout: set-up, rewards. */
  get signal(): AbortSignal {
    return this.#whole.signal;
  }

  /** Ends the model calls that the agent did not wait for: what comes of them now, no reward would have seen. */
  endCalls(): void {
    this.#inScope(() => this.#calls.abort(rolloutEnded));
  }

  /** Ends what anybody left running, and lets go of the timer and of the run's signal. */
  dispose(): void {
    this.#timer.clear();
    this.#run?.removeEventListener('abort', this.#follow);
    this.#abort(rolloutEnded);
  }

  #follow = (): void => {
    if (this.#run) this.#interrupt({ status: 'cancelled', failure: toCancellation(this.#run) });
  };

  #interrupt(interrupted: Interrupted): void {
    this.#settle(interrupted);
    this.#abort(new MartingaleError(interrupted.failure.code, interrupted.failure.message));
  }

  #abort(reason: MartingaleError): void {
    this.#inScope(() => {
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
      'find what waits.',
  };
}
