import type { RolloutLimits } from '../trajectory/index.ts';
import { ownMetrics } from './own-metrics.ts';

interface Checked {
  name: string;
  limits?: RolloutLimits | undefined;
  cleanupTimeoutMs?: number | undefined;
  credit?: { discount: number } | ((context: never) => unknown) | undefined;
}

/** @throws TypeError or RangeError that names the field, its value, and what it takes. */
export function checkOptions(
  { name, limits = {}, cleanupTimeoutMs, credit }: Checked,
  weights: ReadonlyMap<string, number>,
): void {
  const environment = `environment "${name}"`;
  for (const [field, limit] of Object.entries(limits)) checkLimit(field, limit, environment);
  if (cleanupTimeoutMs !== undefined && !(cleanupTimeoutMs > 0))
    throw new RangeError(
      `\`cleanupTimeoutMs\` of ${environment} is ${cleanupTimeoutMs}; give milliseconds above 0.`,
    );
  if (typeof credit === 'object' && !(credit.discount >= 0 && credit.discount <= 1))
    throw new RangeError(
      `\`credit.discount\` of ${environment} is ${credit.discount}; give a number from 0 to 1.`,
    );
  for (const [reward, weight] of weights) {
    if (!Number.isFinite(weight))
      throw new TypeError(`The weight of reward "${reward}" is ${weight}; give a finite number.`);
    if (ownMetrics.has(reward))
      throw new TypeError(
        `"${reward}" is a metric of its own in every environment; give the reward another name.`,
      );
  }
  // With `credit`, step rewards may be all there is.
  if (credit === undefined && ![...weights.values()].some((weight) => weight !== 0))
    throw new TypeError(
      `Environment "${name}" has no reward with a weight other than 0: nothing to learn from. Give \`rewards\` or ` +
        '`groupRewards`, or `credit` where all rewards are step rewards.',
    );
}

function checkLimit(field: string, limit: unknown, environment: string): void {
  if (limit === undefined) return;
  const whole = field !== 'milliseconds';
  if (typeof limit !== 'number' || !(limit > 0) || (whole && !Number.isInteger(limit)))
    throw new RangeError(
      `\`limits.${field}\` of ${environment} is ${String(limit)}; give a ${whole ? 'whole ' : ''}number above 0, or leave it out.`,
    );
}
