import { parentPort, workerData } from 'node:worker_threads';
import { loadRuntime, type Runtime } from '../runtime.ts';
import { NativeGate } from './native-gate.ts';
import { beat } from './watchdog.ts';
import {
  toFailure,
  type WorkerAnswer,
  type WorkerReady,
  type WorkerRequest,
  type WorkerSettings,
  type WorkerStart,
} from './worker-messages.ts';

/** Passed to a worker's tasks. */
interface WorkerContext {
  runtime: Runtime;
  settings: WorkerSettings;
  /** Sends answers in one message. */
  send: (answers: WorkerAnswer[]) => void;
}

/** The work of a worker thread. */
interface WorkerTasks<Call> {
  /** Resolves with the call's result, or with undefined if that is sent later. If it rejects, the call fails. */
  call(call: Call, id: number): Promise<unknown>;
  cancel(id: number): void;
  /** Completes the current step and releases everything. */
  close(): Promise<void>;
}

/** Starts the work of this worker thread: loads what its settings name and passes on the requests. */
export async function startWorker<Call>(
  open: (context: WorkerContext) => Promise<WorkerTasks<Call>>,
): Promise<void> {
  const port = parentPort;
  if (!port) throw new Error('this module runs in a worker thread');
  const { settings, gate, watchdog } = workerData as WorkerStart;
  beat(watchdog);
  const runtime = await loadRuntime(settings.runtime, settings.threads, new NativeGate(gate));
  const send = (answers: WorkerAnswer[]) => port.postMessage(answers);
  const tasks = await open({ runtime, settings, send });
  port.on('message', (request: WorkerRequest<Call>) => {
    if (request.type === 'cancel') return tasks.cancel(request.id);
    if (request.type === 'close') return void tasks.close().finally(() => process.exit());
    const { id } = request;
    tasks.call(request.call, id).then(
      (result) => result !== undefined && send([{ id, result }]),
      (error: unknown) => send([{ id, failure: toFailure(error) }]),
    );
  });
  port.postMessage({ runtime: runtime.name } satisfies WorkerReady);
}
