import type { Worker } from 'node:worker_threads';

export interface Patience {
  /** How long the thread may compute until it says something, in milliseconds of its processor time. */
  timeoutMs: number;
  /** How long that may take on a machine that is busy with other things. */
  longestMs: number;
}

/** The outcome of waiting for a thread. In all cases but `message` the thread has ended. */
export type Answer<Message> =
  | { type: 'message'; message: Message }
  /** By itself: it threw, or its heap is full. */
  | { type: 'died' }
  /** It computed for longer than it may. */
  | { type: 'overtime' }
  /** The machine gave it hardly any processor time. */
  | { type: 'starved' };

/**
 * Waits for what a thread says next, and ends the thread where that takes too long. Where Node.js does not tell a
 * thread's processor time (`worker.cpuUsage`, from 24.6 on), all time counts.
 */
export async function nextMessage<Message>(
  worker: Worker,
  { timeoutMs, longestMs }: Patience,
): Promise<Answer<Message>> {
  const { promise, resolve } = Promise.withResolvers<Answer<Message>>();
  const began = performance.now();
  let ending: Answer<Message> = { type: 'died' };
  let timer: NodeJS.Timeout | undefined;
  /** What the thread had computed before; null where nobody can say. */
  const before = processorMs(worker);
  // It resolves once the thread is gone, so that the next one to ask finds another.
  const end = (why: 'overtime' | 'starved') => {
    ending = { type: why };
    void worker.terminate();
  };
  /** Since when it has not said what it has computed; null where it was not asked. */
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
    // A thread that does not even say what it has computed is at one thing that cannot be interrupted.
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
