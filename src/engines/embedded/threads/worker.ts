import { parentPort, workerData } from 'node:worker_threads';
import { DeviceLock } from '../onnx/device-lock.ts';
import { NativeGate } from '../onnx/native-gate.ts';
import { loadRuntime, type Runtime, type RuntimeOptions } from '../runtime.ts';
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
  /** On the CPU. */
  runtime: Runtime;
  /** On the device of the settings; the same one if that is the CPU. */
  checkpointRuntime: Runtime;
  settings: WorkerSettings;
  /** Sends answers in one message. */
  send: (answers: WorkerAnswer[]) => void;
}

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
  const { settings, gate: gateMemory, deviceLock, watchdog } = workerData as WorkerStart;
  beat(watchdog);
  const gate = new NativeGate(gateMemory);
  const { device } = settings;
  const load = (options: RuntimeOptions) => loadRuntime(settings.runtime, settings.threads, options);
  const runtime = await load({ gate });
  const checkpointRuntime =
    device === 'cpu' ? runtime : await load({ gate, device, lock: new DeviceLock(deviceLock) });
  const send = (answers: WorkerAnswer[]) => port.postMessage(answers);
  const tasks = await open({ runtime, checkpointRuntime, settings, send });
  const handle = (request: WorkerRequest<Call>) => {
    if (request.type === 'cancel') return tasks.cancel(request.id);
    if (request.type === 'close')
      return void tasks
        .close()
        .then(() => checkpointRuntime.close())
        .finally(() => process.exit());
    const { id } = request;
    tasks.call(request.call, id).then(
      (result) => result !== undefined && send([{ id, result }]),
      (error: unknown) => send([{ id, failure: toFailure(error) }]),
    );
  };
  port.on('message', (requests: WorkerRequest<Call>[]) => requests.forEach(handle));
  port.postMessage({ runtime: runtime.name } satisfies WorkerReady);
}
