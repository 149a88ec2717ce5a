import type { MessagePort } from 'node:worker_threads';
import { EngineError } from '../../engine.ts';
import { addParts, type GradientSum, PartialSum } from '../runner/adapter-vector.ts';
import type { BatchRun, BatchRunner } from '../runner/batch-runner.ts';
import type { ProbabilitySlopes, SoftmaxDecisions, TokenProbabilities } from '../runner/head-runner.ts';
import type { LogitRows } from '../sampling/distribution.ts';
import { fromFailure, toFailure, type WorkerFailure } from '../threads/worker-messages.ts';

/** Decisions in a message: each set of legal tokens once, all of them one after the other. */
interface SentDecisions extends Omit<SoftmaxDecisions, 'legal'> {
  ids: Int32Array;
  /** Start and end of each set in `ids`; -1 and -1 for all tokens. */
  bounds: Int32Array;
  setOf: Int32Array;
}

/** What the trainer's thread asks of a thread that runs graphs. */
type Request = { pass: number } & (
  | { type: 'forward'; run: Omit<BatchRun, 'softmax'> & { softmax: SentDecisions } }
  | { type: 'logits'; states: Int32Array }
  | { type: 'addLogitsGradient'; states: Int32Array; gradient: Float32Array }
  | { type: 'backward'; slopes: ProbabilitySlopes }
  | { type: 'end' }
);

type Message = { id: number; request: Request };

type Answer = { id: number } & ({ result: unknown } | { failure: WorkerFailure });

/** Runs the graphs in another thread, at the other end of a port. Results move between the threads without a copy. */
export class RemoteRunner implements BatchRunner {
  readonly #port: MessagePort;
  readonly #calls = new Map<number, PromiseWithResolvers<unknown>>();
  #ids = 0;
  #isClosed = false;

  constructor(port: MessagePort) {
    this.#port = port;
    port.on('message', (answer: Answer) => {
      const call = this.#calls.get(answer.id);
      this.#calls.delete(answer.id);
      if ('result' in answer) call?.resolve(answer.result);
      else call?.reject(fromFailure(answer.failure));
    });
    port.on('close', () => {
      this.#isClosed = true;
      for (const { reject } of this.#calls.values()) reject(threadEnded());
      this.#calls.clear();
    });
  }

  async forward(pass: number, { softmax, ...run }: BatchRun): Promise<TokenProbabilities> {
    const sent = { ...run, softmax: toSend(softmax) };
    return (await this.#ask({ type: 'forward', pass, run: sent })) as TokenProbabilities;
  }

  async logits(pass: number, states: Int32Array): Promise<LogitRows> {
    return (await this.#ask({ type: 'logits', pass, states })) as LogitRows;
  }

  async addLogitsGradient(pass: number, states: Int32Array, gradient: Float32Array): Promise<void> {
    await this.#ask({ type: 'addLogitsGradient', pass, states, gradient });
  }

  /** All that the pass adds arrives with this. */
  async backward(pass: number, slopes: ProbabilitySlopes, sum: GradientSum): Promise<void> {
    addParts(sum, (await this.#ask({ type: 'backward', pass, slopes })) as PartialSum['parts']);
  }

  end(pass: number): void {
    this.#ask({ type: 'end', pass }).catch(() => undefined);
  }

  close(): void {
    this.#port.close();
  }

  async #ask(request: Request): Promise<unknown> {
    if (this.#isClosed) throw threadEnded();
    const call = Promise.withResolvers<unknown>();
    const id = this.#ids++;
    this.#calls.set(id, call);
    this.#port.postMessage({ id, request } satisfies Message);
    return call.promise;
  }
}

/** Answers the requests of the trainers at the other ends of ports: one port for each job. */
export class RunnerServer {
  /** The last request. Requests follow one after another. */
  #last: Promise<void> = Promise.resolve();
  #isClosing = false;

  serve(port: MessagePort, runner: BatchRunner): void {
    const sums = new Map<number, PartialSum>();
    const { signal } = new AbortController();
    const answer = async (request: Request): Promise<unknown> => {
      const { pass } = request;
      const sum = sums.get(pass) ?? new PartialSum();
      switch (request.type) {
        case 'forward':
          return runner.forward(pass, { ...request.run, softmax: asReceived(request.run.softmax) }, signal);
        case 'logits':
          return runner.logits(pass, request.states);
        case 'addLogitsGradient':
          sums.set(pass, sum);
          return runner.addLogitsGradient(pass, request.states, request.gradient, sum);
        case 'backward':
          sums.delete(pass);
          await runner.backward(pass, request.slopes, sum);
          return sum.parts;
        case 'end':
          sums.delete(pass);
          return runner.end(pass);
      }
    };
    const reply = async ({ id, request }: Message) => {
      if (this.#isClosing) return;
      try {
        const result = await answer(request);
        port.postMessage({ id, result } satisfies Answer, buffersIn(result));
      } catch (error) {
        port.postMessage({ id, failure: toFailure(error) } satisfies Answer);
      }
    };
    port.on('message', (message: Message) => {
      this.#last = this.#last.then(() => reply(message));
    });
    port.on('close', () => runner.close());
  }

  /** Completes the current request. */
  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#last;
  }
}

function toSend({ legal, ...columns }: SoftmaxDecisions): SentDecisions {
  const indices = new Map<Int32Array | null, number>();
  const bounds: number[] = [];
  let length = 0;
  const setOf = columns.tokens.map((_, index) => {
    const set = legal(index);
    const known = indices.get(set);
    if (known !== undefined) return known;
    bounds.push(...(set ? [length, length + set.length] : [-1, -1]));
    length += set?.length ?? 0;
    indices.set(set, indices.size);
    return indices.size - 1;
  });
  const ids = new Int32Array(length);
  for (const [set, index] of indices) if (set) ids.set(set, bounds[2 * index]);
  return { ...columns, ids, bounds: Int32Array.from(bounds), setOf };
}

function asReceived({ ids, bounds, setOf, ...columns }: SentDecisions): SoftmaxDecisions {
  const sets = Array.from({ length: bounds.length / 2 }, (_, index) => {
    const start = bounds[2 * index] as number;
    return start < 0 ? null : ids.subarray(start, bounds[2 * index + 1]);
  });
  return { ...columns, legal: (index) => sets[setOf[index] as number] ?? null };
}

/** The memory of arrays in a result, each once. */
function buffersIn(result: unknown): ArrayBuffer[] {
  const buffers = new Set<ArrayBuffer>();
  const find = (value: unknown) => {
    if (ArrayBuffer.isView(value)) {
      if (value.buffer instanceof ArrayBuffer) buffers.add(value.buffer);
    } else if (typeof value === 'object' && value !== null) Object.values(value).forEach(find);
  };
  find(result);
  return [...buffers];
}

function threadEnded(): EngineError {
  return new EngineError(
    'worker_died',
    'An engine thread that runs the training graphs has ended. Send the calls in flight again.',
  );
}
