import { fork } from 'node:child_process';
import { Worker } from 'node:worker_threads';
import { describe, expect, onTestFinished, test } from 'vitest';
import { nextMessage } from '../../src/util/next-message.ts';

/** A thread that follows the message. */
function thread(): Worker {
  const worker = new Worker(
    `const { parentPort } = require('node:worker_threads');
    parentPort.on('message', (what) => {
      if (what === 'answer') parentPort.postMessage('answer');
      if (what === 'compute') for (;;);
      if (what === 'throw') throw new Error('thrown');
    });`,
    { eval: true },
  );
  worker.on('error', () => {});
  onTestFinished(async () => {
    await worker.terminate();
  });
  return worker;
}

async function ask(what: string, limits: { timeoutMs: number; maxMs: number }) {
  const worker = thread();
  await new Promise((resolve) => worker.once('online', resolve));
  const answer = nextMessage<string>(worker, limits);
  worker.postMessage(what);
  return answer;
}

describe('waiting for a thread', () => {
  test('ends with its message', async () => {
    expect(await ask('answer', { timeoutMs: 60_000, maxMs: 60_000 })).toEqual({
      type: 'message',
      message: 'answer',
    });
  });

  test('ends when it dies', async () => {
    expect(await ask('throw', { timeoutMs: 60_000, maxMs: 60_000 })).toEqual({ type: 'died' });
  });

  test('ends when it has used too much processor time', async () => {
    expect(await ask('compute', { timeoutMs: 100, maxMs: 60_000 })).toEqual({ type: 'overtime' });
  });

  test.skipIf(!('cpuUsage' in Worker.prototype))('does not count time without the processor', async () => {
    // It sleeps: its CPU time does not advance, as on a busy machine.
    expect(await ask('rest', { timeoutMs: 500, maxMs: 2000 })).toEqual({ type: 'starved' });
  });

  test.skipIf(!('cpuUsage' in Worker.prototype))(
    'ends for one reason, also with a request for its processor time under way',
    async () => {
      const worker = thread();
      await new Promise((resolve) => worker.once('online', resolve));
      const before = await worker.cpuUsage();
      const ended = new Promise<never>((_, reject) => {
        const terminate = worker.terminate.bind(worker);
        worker.terminate = () => {
          reject(new Error('The thread has ended.'));
          return terminate();
        };
      });
      const reports = [Promise.resolve(before), ended];
      worker.cpuUsage = () => reports.shift() ?? ended;
      expect(await nextMessage(worker, { timeoutMs: 300, maxMs: 400 })).toEqual({ type: 'starved' });
    },
  );
});

/** A process that follows the message, once it has answered that it runs. */
async function askProcess(what: string, limits: { timeoutMs: number; maxMs: number }) {
  const child = fork('-e', [
    "process.on('message', (what) => { if (what === 'compute') for (;;); }); process.send('ready');",
  ]);
  onTestFinished(() => void child.kill('SIGKILL'));
  expect(await nextMessage(child, { timeoutMs: 60_000 })).toEqual({ type: 'message', message: 'ready' });
  child.send(what);
  return nextMessage<string>(child, limits);
}

describe('waiting for a process', () => {
  test('ends when it has used too much processor time', async () => {
    expect(await askProcess('compute', { timeoutMs: 100, maxMs: 60_000 })).toEqual({ type: 'overtime' });
  });

  test.runIf(process.platform === 'linux')('does not count time without the processor', async () => {
    expect(await askProcess('rest', { timeoutMs: 500, maxMs: 2000 })).toEqual({ type: 'starved' });
  });
});
