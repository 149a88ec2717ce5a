import type { LogitsProcessorFactory } from '../../../src/engines/embedded/index.ts';

const never = new Int32Array(new SharedArrayBuffer(4));

/** Leaves the logits unchanged but takes milliseconds, to sample at the speed of a large model. */
const slow: LogitsProcessorFactory = () => () => {
  Atomics.wait(never, 0, 0, 5);
};
export default slow;
