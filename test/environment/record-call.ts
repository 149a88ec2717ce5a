import type { Trajectory } from 'martingale';

/** Records a call as a model would: a prompt of one token, and one sampled token. */
export function recordCall(trajectory: Trajectory, text = 'yes'): number {
  const { index } = trajectory.startCall();
  trajectory.record({
    index,
    messages: [{ role: 'user', content: `call ${index}` }],
    tools: undefined,
    choice: {
      index: 0,
      message: { role: 'assistant', content: text },
      finish_reason: 'stop',
      logprobs: { content: [{ token: text, logprob: -1, top_logprobs: [] }] },
      token_ids: [100 + index],
    },
    promptTokenIds: [index],
    model: 'base',
  });
  return index;
}
