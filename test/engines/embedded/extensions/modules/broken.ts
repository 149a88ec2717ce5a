import type { LogitsProcessorFactory } from '../../../../../src/engines/embedded/index.ts';

/** Fails at the third token, in the requested way. */
const broken: LogitsProcessorFactory = ({ kwargs }) => {
  if (kwargs.how === 'no function') return JSON.parse('{}');
  return ({ prompt, reply, logits }) => {
    if (reply.length < 2) return;
    if (kwargs.how === 'throw') throw new Error('out of ideas');
    if (kwargs.how === 'promise') return Promise.reject(new Error('later'));
    if (kwargs.how === 'context') Reflect.apply(Array.prototype.push, prompt, [1]);
    logits.fill(kwargs.how === 'infinity' ? Number.POSITIVE_INFINITY : Number.NaN);
  };
};

export default broken;
