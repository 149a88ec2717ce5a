import { isMainThread } from 'node:worker_threads';
import type { LogitsProcessorFactory } from '../../../../src/engines/embedded/index.ts';

/** Ends the thread behind the engine's back. */
const crash: LogitsProcessorFactory = () => () => {
  if (isMainThread) throw new Error('not to be run here');
  setImmediate(() => {
    throw new Error('the thread is no more');
  });
};

export default crash;
