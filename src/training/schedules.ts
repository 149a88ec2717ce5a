import { checkArgument, type OptionNames, requireOptions } from '../util/option-names.ts';

/** Progress of a run: the current step, counted from 0, and the number of steps. */
export interface RunProgress {
  step: number;
  steps: number;
}

/** A number that changes over a run. Use it as `config: (at) => ({ learning_rate: rate(at) })`. */
export type Schedule = (progress: RunProgress) => number;

export function constant(value: number): Schedule {
  checkArgument('value', value, 'number');
  return () => value;
}

interface FromTo {
  from: number;
  to: number;
}

const fromTo = { from: 'number', to: 'number' } satisfies OptionNames<FromTo>;

/** Changes linearly from the first step (`from`) to the last (`to`). */
export function linear(options: FromTo): Schedule {
  requireOptions('linear()', options, fromTo, ['from', 'to']);
  const { from, to } = options;
  return (progress) => from + (to - from) * shareDone(progress);
}

/** Follows half a cosine, slow at both ends (Loshchilov and Hutter 2017, arXiv:1608.03983, without restarts). */
export function cosine(options: FromTo): Schedule {
  requireOptions('cosine()', options, fromTo, ['from', 'to']);
  const { from, to } = options;
  return (progress) => to + ((from - to) * (1 + Math.cos(Math.PI * shareDone(progress)))) / 2;
}

/**
 * Rises linearly over the first `steps` steps, starting above 0, to the first value of `schedule`, which then covers
 * the remaining steps.
 * @throws OptionError if `steps` is not a whole number of at least 0.
 */
export function warmup(options: { steps: number; schedule: Schedule }): Schedule {
  requireOptions('warmup()', options, { steps: 'amount', schedule: 'function' }, ['steps', 'schedule']);
  const { steps: rising, schedule } = options;
  return ({ step, steps }) => {
    const left = Math.max(1, steps - rising);
    if (step >= rising) return schedule({ step: step - rising, steps: left });
    return (schedule({ step: 0, steps: left }) * (step + 1)) / (rising + 1);
  };
}

function shareDone({ step, steps }: RunProgress): number {
  return steps > 1 ? Math.min(1, step / (steps - 1)) : 0;
}
