import { type TransferListItem, Worker } from 'node:worker_threads';
import { hasCode } from '../../../util/error.ts';
import { EngineError, type GenerationDelta } from '../../engine.ts';
import { deviceLock } from '../onnx/device-lock.ts';
import { NativeGate, shutAtExit } from '../onnx/native-gate.ts';
import { Watchdog } from './watchdog.ts';
import {
  fromFailure,
  type WorkerAnswer,
  type WorkerReady,
  type WorkerRequest,
  type WorkerSettings,
  type WorkerStart,
} from './worker-messages.ts';

/** How long a thread may take, in milliseconds. */
export interface ThreadTimeouts {
  /** Until it has started. Default 60000. */
  startTimeoutMs: number;
  /** To complete its current step when it is closed. Default 10000. */
  closeTimeoutMs: number;
}

export interface CallOptions {
  /** Rejects the call at once with its reason, and tells the thread. */
  signal?: AbortSignal | undefined;
  /** If it throws, the call fails with that error. */
  onDelta?: ((delta: GenerationDelta) => void) | undefined;
  /** What moves to the thread with the call. */
  transfer?: readonly TransferListItem[];
}

interface PendingCall extends Pick<CallOptions, 'onDelta'> {
  resolve: (result: unknown) => void;
  reject: (error: unknown) => void;
}

/** One worker thread, from its start to its death. */
export class RunningThread<Call> {
  /** Resolves with the name of the thread's runtime when it has started. */
  readonly ready: Promise<string>;
  readonly #worker: Worker;
  readonly #closeTimeoutMs: number;
  readonly #exited: Promise<void>;
  readonly #watchdog: Watchdog;
  readonly #gate = new NativeGate();
  readonly #calls = new Map<number, PendingCall>();
  /** The error of all later calls, once the thread has died or closes. */
  #death: EngineError | undefined;
  /** What ended the thread, as far as it is known before its exit. */
  #cause: unknown;
  #ids = 0;
  /** Requests of this tick. */
  #outbox: { request: WorkerRequest<Call>; transfer: readonly TransferListItem[] }[] = [];

  constructor(module: URL, settings: WorkerSettings, { startTimeoutMs, closeTimeoutMs }: ThreadTimeouts) {
    const { threadTimeoutMs, threadHeapBytes } = settings;
    this.#closeTimeoutMs = closeTimeoutMs;
    this.#watchdog = new Watchdog(threadTimeoutMs);
    const workerData: WorkerStart = {
      settings,
      gate: this.#gate.shared,
      deviceLock: deviceLock.shared,
      watchdog: this.#watchdog.start,
    };
    const worker = new Worker(module, {
      workerData,
      resourceLimits: { maxOldGenerationSizeMb: Math.ceil(threadHeapBytes / 2 ** 20) },
    });
    this.#worker = worker;
    const { threadId } = worker;
    const ready = Promise.withResolvers<string>();
    const exited = Promise.withResolvers<void>();
    this.ready = ready.promise;
    this.ready.catch(() => undefined);
    this.#exited = exited.promise;
    const forgetGate = shutAtExit(this.#gate);
    let unwatch = () => {};
    const startDeadline = setTimeout(
      () => this.#terminate(new Error(`it did not start within ${startTimeoutMs} ms`)),
      startTimeoutMs,
    );
    worker.once('message', ({ runtime }: WorkerReady) => {
      clearTimeout(startDeadline);
      worker.on('message', (answers: WorkerAnswer[]) => this.#receive(answers));
      unwatch = this.#watchdog.watch({
        excused: () => this.#gate.occupied,
        onSilent: () => this.#terminate(new Error(`it was silent for ${threadTimeoutMs} ms`)),
      });
      ready.resolve(runtime);
    });
    worker.once('error', (error) => {
      this.#cause = error;
    });
    worker.once('exit', (code) => {
      clearTimeout(startDeadline);
      forgetGate();
      deviceLock.release(threadId);
      unwatch();
      this.#die(deathOf(this.#cause, code));
      ready.reject(this.#death);
      exited.resolve();
    });
  }

  get isDead(): boolean {
    return this.#death !== undefined;
  }

  get silentMs(): number {
    return this.#watchdog.silentMs;
  }

  /** Sends a call and waits for its result. Calls wait for the thread to start. */
  async call<Result>(call: Call, { signal, onDelta, transfer }: CallOptions = {}): Promise<Result> {
    signal?.throwIfAborted();
    if (this.#death) throw this.#death;
    const id = this.#ids++;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#calls.set(id, { resolve, reject, onDelta });
    const onAbort = () => this.#cancel(id, signal?.reason);
    signal?.addEventListener('abort', onAbort, { once: true });
    try {
      this.#post({ type: 'call', id, call }, transfer);
      return (await promise) as Result;
    } finally {
      signal?.removeEventListener('abort', onAbort);
      this.#calls.delete(id);
    }
  }

  /** Settles with work that consists of calls, or rejects as soon as the thread dies or closes. */
  async whileAlive<Result>(work: Promise<Result>): Promise<Result> {
    const id = this.#ids++;
    const { promise, reject } = Promise.withResolvers<never>();
    this.#calls.set(id, { resolve: () => undefined, reject });
    try {
      return await Promise.race([work, promise]);
    } finally {
      this.#calls.delete(id);
    }
  }

  /**
   * Fails all calls at once and asks the thread to exit, because terminating a thread inside the native runtime aborts
   * the whole process. Resolves once the thread has ended. After the deadline it is terminated.
   */
  async close(): Promise<void> {
    this.#die(engineClosed());
    this.#post({ type: 'close' });
    const deadline = setTimeout(() => this.#terminate(engineClosed()), this.#closeTimeoutMs);
    await this.#exited;
    clearTimeout(deadline);
  }

  #die(error: EngineError): void {
    this.#death ??= error;
    for (const { reject } of this.#calls.values()) reject(this.#death);
    this.#calls.clear();
  }

  /**
   * Sends what was requested within one tick as one message: a message costs this thread more than a request, and requests
   * that come together are computed together.
   */
  #post(request: WorkerRequest<Call>, transfer: readonly TransferListItem[] = []): void {
    if (this.#outbox.push({ request, transfer }) === 1) setImmediate(() => this.#flush());
  }

  #flush(): void {
    const sent = this.#outbox;
    this.#outbox = [];
    try {
      this.#worker.postMessage(
        sent.map(({ request }) => request),
        sent.flatMap(({ transfer }) => transfer),
      );
    } catch (error) {
      const [first, ...others] = sent;
      if (others.length === 0) {
        if (first?.request.type === 'call') this.#calls.get(first.request.id)?.reject(error);
        return;
      }
      // A request that cannot be sent fails alone.
      for (const one of sent) {
        this.#outbox = [one];
        this.#flush();
      }
    }
  }

  /** An answer to a cancelled call may be on the way. */
  #receive(answers: WorkerAnswer[]): void {
    for (const answer of answers) {
      const call = this.#calls.get(answer.id);
      if ('result' in answer) call?.resolve(answer.result);
      else if ('failure' in answer) call?.reject(fromFailure(answer.failure));
      else
        try {
          call?.onDelta?.(answer.delta);
        } catch (error) {
          this.#cancel(answer.id, error);
        }
    }
  }

  #cancel(id: number, reason: unknown): void {
    this.#calls.get(id)?.reject(reason);
    this.#calls.delete(id);
    this.#post({ type: 'cancel', id });
  }

  /** Terminates the thread as soon as it is outside the native runtime. */
  #terminate(cause: Error): void {
    this.#cause ??= cause;
    void this.#gate.shut().then(() => this.#worker.terminate());
  }
}

function deathOf(cause: unknown, exitCode: number): EngineError {
  const reason = cause instanceof Error ? cause.message : `exit code ${exitCode}`;
  // Between threads an error keeps its fields but not its class. The messages of these already have the remedy.
  for (const code of ['runtime_missing', 'device_missing', 'bad_option'])
    if (hasCode(cause, code)) return new EngineError(code, reason);
  return new EngineError(
    'worker_died',
    `An engine thread died (${reason}). Its calls in flight are lost, send them again.`,
  );
}

export function engineClosed(): EngineError {
  return new EngineError('engine_closed', 'The engine has been closed.');
}
