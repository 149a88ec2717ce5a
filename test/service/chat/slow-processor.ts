import type { LogitsProcessorFactory } from '../../../src/engines/embedded/index.ts';

const never = new Int32Array(new SharedArrayBuffer(4));

/** Leaves the logits as they are, and takes milliseconds to do it: sampling at the pace of a large model. */
const slow: LogitsProcessorFactory = () => () => {
  Atomics.wait(never, 0, 0, 5);
};
export default slow;
