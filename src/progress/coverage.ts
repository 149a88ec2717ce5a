import { count, counted } from './format.ts';
import type { RunEvent } from './run-event.ts';

type Coverage = Pick<Extract<RunEvent, { type: 'evaluated' }>, 'scenarios' | 'scored' | 'counts'>;

/** What a score is of: `256 scenarios`, or `110 of 256 scenarios (146 rollouts failed)`. */
export function coverageText({ scenarios, scored, counts }: Coverage): string {
  const failed = counts.failed + counts.cancelled;
  if (failed === 0) return counted(scenarios, 'scenario');
  const of = scored === scenarios ? '' : `${count(scored)} of `;
  return `${of}${counted(scenarios, 'scenario')} (${counted(failed, 'rollout')} failed)`;
}
