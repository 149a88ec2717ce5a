import type { RunEvent } from 'martingale';

/** Options of `train` that end the run as soon as so many steps, one after another, have a reward above the goal. */
export function untilReward(goal: number, { steps = 1 } = {}) {
  const stop = new AbortController();
  let above = 0;
  const onEvent = (event: RunEvent): void => {
    if (event.type !== 'step') return;
    above = event.reward > goal ? above + 1 : 0;
    if (above === steps) stop.abort(new Error(`the reward is above ${goal}`));
  };
  return { onEvent, signal: stop.signal };
}
