import { checkOptionNames, type OptionNames } from '../util/option-names.ts';

/** How far a run is: `step` counts from 0, `steps` is how many it has. */
export interface RunProgress {
  step: number;
  steps: number;
}

/** A number that changes over a run: `config: (at) => ({ learning_rate: rate(at) })`. */
export type Schedule = (progress: RunProgress) => number;

export const constant =
  (value: number): Schedule =>
  () =>
    value;

interface FromTo {
  from: number;
  to: number;
}

const fromTo = { from: true, to: true } satisfies OptionNames<FromTo>;

/** In a straight line, from the first step's value to the last step's. */
export function linear(options: FromTo): Schedule {
  checkOptionNames('linear()', options, fromTo);
  const { from, to } = options;
  return (progress) => from + (to - from) * shareDone(progress);
}

/** Along half a cosine, slow at both ends (Loshchilov and Hutter 2017, arXiv:1608.03983, without restarts). */
export function cosine(options: FromTo): Schedule {
  checkOptionNames('cosine()', options, fromTo);
  const { from, to } = options;
  return (progress) => to + ((from - to) * (1 + Math.cos(Math.PI * shareDone(progress)))) / 2;
}

/**
 * Rises in a straight line over the first `steps` steps, none of them 0, to where `schedule` begins, and goes on with it:
 * the steps that are left are all that `schedule` knows of.
 * @throws RangeError where `steps` is not a whole number from 0 up.
 */
export function warmup(options: { steps: number; schedule: Schedule }): Schedule {
  checkOptionNames('warmup()', options, { steps: true, schedule: true });
  const { steps: rising, schedule } = options;
  if (!Number.isInteger(rising) || rising < 0)
    throw new RangeError(`warmup: \`steps\` is ${rising}; give a whole number of at least 0.`);
  return ({ step, steps }) => {
    const left = Math.max(1, steps - rising);
    if (step >= rising) return schedule({ step: step - rising, steps: left });
    return (schedule({ step: 0, steps: left }) * (step + 1)) / (rising + 1);
  };
}

function shareDone({ step, steps }: RunProgress): number {
  return steps > 1 ? Math.min(1, step / (steps - 1)) : 0;
}
