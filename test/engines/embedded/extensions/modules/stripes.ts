import type { LogitsProcessorFactory } from '../../../../../src/engines/embedded/index.ts';

/** Raises every n-th token, counted from the length of the text so far; bans the last sampled one. */
const stripes: LogitsProcessorFactory = ({ args, kwargs, extra }) => {
  const every = Number(args[0]);
  if (!Number.isInteger(every) || every < 1)
    throw new Error(`the first argument is a whole number, not ${args[0]}`);
  const raise = Number(kwargs.raise ?? extra.raise ?? 1);
  return ({ prompt, reply, logits }) => {
    for (let token = (prompt.length + reply.length) % every; token < logits.length; token += every)
      logits[token] = (logits[token] as number) + raise;
    const last = reply.at(-1);
    if (last !== undefined) logits[last] = Number.NEGATIVE_INFINITY;
  };
};

export default stripes;
