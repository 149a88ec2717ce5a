import type { Worker } from 'node:worker_threads';

export interface MessageTimeouts {
  /** Most processor time until the thread's next message, in milliseconds. */
  timeoutMs: number;
  /** Most time in all, for a machine that is busy with other work, in milliseconds. */
  longestMs: number;
}

/** The outcome of waiting for a thread. In all cases but `message` the thread has ended. */
export type Answer<Message> =
  | { type: 'message'; message: Message }
  /** The thread ended by itself: it threw, or its heap is full. */
  | { type: 'died' }
  /** The thread used more processor time than allowed. */
  | { type: 'overtime' }
  /** The machine gave the thread hardly any processor time. */
  | { type: 'starved' };

/**
 * Waits for a thread's next message, and ends the thread if that takes too long. Without `worker.cpuUsage`, which
 * Node.js has from 24.6 on, all time counts as processor time.
 */
export async function nextMessage<Message>(
  worker: Worker,
  { timeoutMs, longestMs }: MessageTimeouts,
): Promise<Answer<Message>> {
  const { promise, resolve } = Promise.withResolvers<Answer<Message>>();
  const began = performance.now();
  let ending: Answer<Message> = { type: 'died' };
  let timer: NodeJS.Timeout | undefined;
  /** Processor time that the thread had used before; null if unknown. */
  const before = processorMs(worker);
  // Resolves once the thread has ended, so that the next caller starts a new one.
  const end = (why: 'overtime' | 'starved') => {
    ending = { type: why };
    void worker.terminate();
  };
  /** When the thread was asked for its processor time, if it has not answered yet; else null. */
  let askedAt: number | null = null;
  const look = async () => {
    askedAt = performance.now();
    const [from, now] = [await before, await processorMs(worker)];
    askedAt = null;
    const passed = performance.now() - began;
    const spent = from === null || now === null ? passed : now - from;
    if (timer === undefined) return;
    if (spent >= timeoutMs) end('overtime');
    else timer = setTimeout(look, Math.max(10, timeoutMs - spent));
  };
  timer = setTimeout(look, timeoutMs);
  const longest = setTimeout(() => {
    // A thread that does not even report its processor time is in one operation that cannot be interrupted.
    const isSilent = askedAt !== null && performance.now() - askedAt > timeoutMs;
    end(isSilent ? 'overtime' : 'starved');
  }, longestMs);
  const onMessage = (message: Message) => resolve({ type: 'message', message });
  const onExit = () => resolve(ending);
  worker.on('message', onMessage);
  worker.once('exit', onExit);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    timer = undefined;
    clearTimeout(longest);
    worker.off('message', onMessage);
    worker.off('exit', onExit);
  }
}

async function processorMs(worker: Worker): Promise<number | null> {
  if (!('cpuUsage' in worker)) return null;
  try {
    const { user, system } = await worker.cpuUsage();
    return (user + system) / 1000;
  } catch {
    // The thread has ended, which its exit event reports.
    return null;
  }
}
