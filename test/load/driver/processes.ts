import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { CallersFigures, CallersPlan, FromCallers } from './callers.ts';
import type { FromService, ServiceFigures, ServicePlan } from './service.ts';

function start(program: string, plan: object): ChildProcess {
  return fork(new URL(program, import.meta.url), [JSON.stringify(plan)], {
    execArgv: ['--no-warnings', '--expose-gc'],
  });
}

/** The next message of this type from a child process. Rejects if the process ends first. */
function hear<Message extends { type: string }, Type extends Message['type']>(
  child: ChildProcess,
  type: Type,
): Promise<Extract<Message, { type: Type }>> {
  return new Promise((resolve, reject) => {
    const onExit = (code: number | null) =>
      reject(new Error(`the process ended with ${code} before it said ${type}`));
    const onMessage = (message: Message) => {
      if (!isOf(message, type)) return;
      child.off('exit', onExit).off('message', onMessage);
      resolve(message);
    };
    child.on('message', onMessage).once('exit', onExit);
  });
}

function isOf<Message extends { type: string }, Type extends Message['type']>(
  message: Message,
  type: Type,
): message is Extract<Message, { type: Type }> {
  return message.type === type;
}

/** Starts a service in its own process. */
export async function startLoadService(plan: ServicePlan) {
  const child = start('./service.ts', plan);
  const { url, apiKey } = await hear<FromService, 'ready'>(child, 'ready');
  return {
    url,
    apiKey,
    figures: async (): Promise<ServiceFigures> => {
      const answer = hear<FromService, 'figures'>(child, 'figures');
      child.send('figures');
      return (await answer).figures;
    },
    /** Used bytes of the heap after a garbage collection, which blocks the process for a moment. */
    liveHeap: async (): Promise<number> => {
      const answer = hear<FromService, 'live'>(child, 'live');
      child.send('live');
      return (await answer).heap;
    },
    [Symbol.asyncDispose]: () => stop(child),
  };
}

/** Starts callers in their own process. They begin at once. */
export function startCallers(plan: CallersPlan) {
  const child = start('./callers.ts', plan);
  const done = hear<FromCallers, 'done'>(child, 'done').then(({ figures }) => figures);
  // If they are disposed of early, nobody awaits this promise.
  done.catch(() => undefined);
  return {
    done,
    figures: async (): Promise<CallersFigures> => {
      const answer = hear<FromCallers, 'figures'>(child, 'figures').then(({ figures }) => figures);
      answer.catch(() => undefined);
      if (child.connected) child.send('figures');
      return Promise.race([answer, done]);
    },
    [Symbol.asyncDispose]: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    },
  };
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.send('close');
  const cut = setTimeout(() => child.kill('SIGKILL'), 15_000);
  await exited;
  clearTimeout(cut);
}
