import type { FailureKind } from '../rollout/index.ts';
import { shortPath } from '../util/show-value.ts';
import type { RunEvent } from './run-event.ts';

/** Made at its first use: it loads data, which programs that import martingale need not wait for at their start. */
let grouped: Intl.NumberFormat | undefined;

export function count(value: number): string {
  grouped ??= new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
  return grouped.format(value);
}

/** A count with its noun, such as "1 group" or "12 groups". */
export const counted = (value: number, noun: string): string =>
  `${count(value)} ${noun}${value === 1 ? '' : 's'}`;

export const decimal = (value: number, digits = 3): string => value.toFixed(digits);

/** A share in per cent, rounded down, so that only 1 is 100%. */
export const percent = (share: number): string => `${Math.floor(share * 100 + 1e-9)}%`;

/** A formatted number; a dash for null. */
export const orDash = (value: number | null, format: (value: number) => string): string =>
  value === null ? '–' : format(value);

/** `4.2 s`, `38 s`, `2:05`, `1:02:05`. */
export function duration(ms: number): string {
  const seconds = Math.max(0, ms / 1000);
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const two = (value: number) => String(value).padStart(2, '0');
  const minutes = Math.floor(whole / 60);
  return minutes < 60
    ? `${minutes}:${two(whole % 60)}`
    : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(whole % 60)}`;
}

/** The first metric, as text: `loss 0.412`. */
export function leadingMetric(metrics: Record<string, number>): string {
  const [first] = Object.entries(metrics);
  return first === undefined ? '' : `${first[0].replaceAll('_', ' ')} ${Number(first[1].toPrecision(3))}`;
}

const maxMessageLength = 300;

interface Failed {
  name: string;
  step?: number | undefined;
}

/** `2 rollouts of step 4 failed: Cannot read ... [TypeError]`, and the location: ` at src/agent.ts:12:19`. */
export function failureText({ name, step }: Failed, { code, message, at, count: rollouts }: FailureKind) {
  const subject = step === undefined ? `the validation "${name}"` : `step ${step}`;
  const shown = message.length > maxMessageLength ? `${message.slice(0, maxMessageLength)}…` : message;
  return {
    what: `${counted(rollouts, 'rollout')} of ${subject} failed: ${shown} [${code}]`,
    where: at === undefined ? '' : ` at ${shortPath(at)}`,
  };
}

type Started = Extract<RunEvent, { type: 'run_started' }>;

/** A line for a new run of a model that was trained before; none for a resumed run. */
export const continuedModelLines = ({ model, fromStep, finishedSteps }: Started): string[] =>
  fromStep > 0 && finishedSteps === undefined
    ? [`goes on from step ${fromStep} of ${model.replace(/:step\d+$/, '')}, which was trained before`]
    : [];

const versionNames = { martingale: 'martingale', node: 'Node', engine: 'the engine' };

/** A line for each version that changed since the run began. */
export const versionLines = ({ changedVersions = [] }: Started): string[] =>
  changedVersions.map(({ of, was, is }) => `resumed with ${versionNames[of]} ${is}; it began with ${was}`);

type Ended = Extract<RunEvent, { type: 'run_ended' }>;

const ends: Record<Ended['reason'], string> = {
  finished: 'finished',
  stopped: 'stopped',
  early_stop: 'ended early',
  budget: 'ended by its budget',
};

/** How a run ended, with the reason if known: `ended early: no better for 3 validations`. */
export const endText = ({ reason, because }: Pick<Ended, 'reason' | 'because'>): string =>
  because === undefined ? ends[reason] : `${ends[reason]}: ${because}`;

/** `1 history rewritten`, `12 histories rewritten`: by the chat template. */
export const rewrittenText = (histories: number): string =>
  `${count(histories)} ${histories === 1 ? 'history' : 'histories'} rewritten`;

/** What whoever uses the model elsewhere has to know, if its replies were asked for in a form. */
export const askedFormLines = (forms: readonly string[] = []): string[] =>
  forms.length === 0
    ? []
    : [
        ...forms.map((form) => `trained under ${form}`),
        'What a form forces is not learned: ask for it wherever the model is used.',
      ];

type Coverage = Pick<Extract<RunEvent, { type: 'evaluated' }>, 'scenarios' | 'scored' | 'counts'>;

/** Number of scenarios in a score: `256 scenarios`, or `110 of 256 scenarios (146 rollouts failed)`. */
export function coverageText({ scenarios, scored, counts }: Coverage): string {
  const failed = counts.failed + counts.cancelled;
  if (failed === 0) return counted(scenarios, 'scenario');
  const share = scored === scenarios ? '' : `${count(scored)} of `;
  return `${share}${counted(scenarios, 'scenario')} (${counted(failed, 'rollout')} failed)`;
}
