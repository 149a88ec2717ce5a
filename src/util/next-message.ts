import type { ChildProcess } from 'node:child_process';
import { Worker } from 'node:worker_threads';
import { linuxTime } from './linux-time.ts';

interface MessageLimits {
  /** Longest processor time until the next message, in milliseconds. */
  timeoutMs: number;
  /** Longest time in total, for a machine that is busy with other work, in milliseconds. Default: `timeoutMs`. */
  maxMs?: number;
}

/** The outcome of waiting for a thread or process. In all cases but `message` it has ended. */
export type MessageOutcome<Message> =
  | { type: 'message'; message: Message }
  /** It ended by itself: it threw, or its heap is full. */
  | { type: 'died' }
  /** It used more time than allowed. */
  | { type: 'overtime' }
  /** The machine gave it hardly any processor time. */
  | { type: 'starved' };

/**
 * Waits for the next message of a thread or child process, and ends it if that takes too long. Where the system does not
 * tell processor time, all time counts: for threads before Node.js 24.6 (`worker.cpuUsage`), and for processes on other
 * systems than Linux.
 */
export async function nextMessage<Message>(
  worker: Worker | ChildProcess,
  { timeoutMs, maxMs = timeoutMs }: MessageLimits,
): Promise<MessageOutcome<Message>> {
  const { promise, resolve } = Promise.withResolvers<MessageOutcome<Message>>();
  const startedAt = performance.now();
  let ending: MessageOutcome<Message> | undefined;
  let timer: NodeJS.Timeout | undefined;
  /** Processor time used before; null if unknown. */
  const before = processorMs(worker);
  // Resolves once it has ended, so that the next caller starts a new one.
  const end = (why: 'overtime' | 'starved') => {
    // A thread that has just been ended does not report its processor time either: that is no second reason.
    ending ??= { type: why };
    if (worker instanceof Worker) void worker.terminate();
    else worker.kill('SIGKILL');
  };
  /** When its processor time was requested, while there is no answer; else null. */
  let requestedAt: number | null = null;
  const check = async () => {
    requestedAt = performance.now();
    const [from, now] = [await before, await processorMs(worker)];
    requestedAt = null;
    const passed = performance.now() - startedAt;
    const spent = from === null || now === null ? passed : now - from;
    if (timer === undefined) return;
    if (spent >= timeoutMs) end('overtime');
    else timer = setTimeout(check, Math.max(10, timeoutMs - spent));
  };
  timer = setTimeout(check, timeoutMs);
  const maxTimer = setTimeout(() => {
    // A thread that does not even report its processor time is in one operation that cannot be interrupted.
    const isSilent = requestedAt !== null && performance.now() - requestedAt > timeoutMs;
    end(isSilent ? 'overtime' : 'starved');
  }, maxMs);
  const onMessage = (message: Message) => resolve({ type: 'message', message });
  const onExit = () => resolve(ending ?? { type: 'died' });
  worker.on('message', onMessage);
  worker.once('exit', onExit);
  // A process that could not start does not exit. The error of a thread comes before its end.
  if (!(worker instanceof Worker)) worker.once('error', onExit);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    timer = undefined;
    clearTimeout(maxTimer);
    worker.off('message', onMessage);
    worker.off('exit', onExit);
    worker.off('error', onExit);
  }
}

async function processorMs(worker: Worker | ChildProcess): Promise<number | null> {
  if (!(worker instanceof Worker)) return linuxTime(`/proc/${worker.pid}`)?.processorMs ?? null;
  if (!('cpuUsage' in worker)) return null;
  try {
    const { user, system } = await worker.cpuUsage();
    return (user + system) / 1000;
  } catch {
    // The thread has ended, which its exit event reports.
    return null;
  }
}
