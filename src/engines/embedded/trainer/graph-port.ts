import type { MessagePort } from 'node:worker_threads';
import { EngineError } from '../../engine.ts';
import type { LogitRows } from '../sampling/distribution.ts';
import { fromFailure, toFailure, type WorkerFailure } from '../threads/worker-messages.ts';
import {
  type ForwardRun,
  type Gradients,
  type GraphRunner,
  LocalGraphs,
  type TrainingSessions,
} from './graph-runner.ts';

/** What the trainer's thread asks of a thread that runs graphs. */
type GraphRequest =
  | { type: 'load'; baseModel: string }
  | { type: 'forward'; run: ForwardRun }
  | { type: 'backward'; kept: number; logitsGradient: Float32Array };

interface PortRequest {
  id: number;
  request: GraphRequest;
}

type PortAnswer = { id: number } & ({ result: unknown } | { failure: WorkerFailure });

/**
 * Runs the graphs in another thread, at the other end of a port. The weights must be in shared memory. All other arrays
 * move between the threads without a copy.
 */
export class RemoteGraphs implements GraphRunner {
  readonly #port: MessagePort;
  readonly #calls = new Map<number, PromiseWithResolvers<unknown>>();
  #ids = 0;
  #isClosed = false;

  constructor(port: MessagePort) {
    this.#port = port;
    port.on('message', (answer: PortAnswer) => {
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

  async load(baseModel: string): Promise<void> {
    await this.#ask({ type: 'load', baseModel });
  }

  async forward(run: ForwardRun): Promise<LogitRows> {
    return (await this.#ask({ type: 'forward', run })) as LogitRows;
  }

  async backward(kept: number, logitsGradient: Float32Array): Promise<Gradients> {
    const answer = this.#ask({ type: 'backward', kept, logitsGradient }, buffersOf([logitsGradient]));
    return (await answer) as Gradients;
  }

  end(): void {
    this.#port.close();
  }

  #ask(request: GraphRequest, transfer: readonly ArrayBuffer[] = []): Promise<unknown> {
    if (this.#isClosed) throw threadEnded();
    const call = Promise.withResolvers<unknown>();
    const id = this.#ids++;
    this.#calls.set(id, call);
    this.#port.postMessage({ id, request } satisfies PortRequest, transfer);
    return call.promise;
  }
}

/** Answers the requests of trainers at the other ends of ports: one port for each job. */
export class GraphServer {
  readonly #sessions: TrainingSessions;
  /** The last run. Runs follow one after another. */
  #last: Promise<void> = Promise.resolve();
  #isClosing = false;

  constructor(sessions: TrainingSessions) {
    this.#sessions = sessions;
  }

  serve(port: MessagePort): void {
    const graphs = new LocalGraphs(this.#sessions);
    port.on('message', (message: PortRequest) => {
      this.#last = this.#last.then(() => this.#answer(port, graphs, message));
    });
    port.on('close', () => graphs.end());
  }

  /** Completes the current run and releases the graphs. */
  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#last;
    await this.#sessions.close();
  }

  async #answer(port: MessagePort, graphs: LocalGraphs, { id, request }: PortRequest): Promise<void> {
    if (this.#isClosing) return;
    try {
      const result = await run(graphs, request);
      port.postMessage({ id, result } satisfies PortAnswer, buffersOf(Object.values(result ?? {})));
    } catch (error) {
      port.postMessage({ id, failure: toFailure(error) } satisfies PortAnswer);
    }
  }
}

async function run(graphs: LocalGraphs, request: GraphRequest): Promise<LogitRows | Gradients | undefined> {
  switch (request.type) {
    case 'load':
      await graphs.load(request.baseModel);
      return undefined;
    case 'forward':
      return graphs.forward(request.run);
    case 'backward':
      return graphs.backward(request.kept, request.logitsGradient);
  }
}

function buffersOf(arrays: readonly Float32Array[]): ArrayBuffer[] {
  return arrays.flatMap(({ buffer }) => (buffer instanceof ArrayBuffer ? buffer : []));
}

function threadEnded(): EngineError {
  return new EngineError(
    'worker_died',
    'an engine thread that runs the training graphs has ended; send the calls in flight again',
  );
}
