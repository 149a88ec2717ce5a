import { differences } from '../../model/index.ts';
import type { Rollout } from '../../rollout/index.ts';
import type { ReplayedRollout } from './replay-rollout.ts';

/** Differences of one rollout that are listed; the last says how many more there are. */
const listed = 5;

/** Where a rollout that ran again came out otherwise than its record says, for people. */
export function compareRollouts(recorded: Rollout, { rollout, mismatch, left }: ReplayedRollout): string[] {
  // What interrupted a rollout is not on record: that it ran on, or ended with the record, is no difference.
  if (recorded.status === 'failed' && rollout.status === 'failed' && left === 0) return [];
  const found = differences(shown(recorded), shown(rollout), '').map(
    ({ path, a, b }) => `${path} was ${quoted(a)} and is ${quoted(b)}`,
  );
  const all = [
    ...(mismatch ? [mismatch.message] : []),
    ...(left > 0 ? [`${left} recorded calls were not made`] : []),
    ...found,
  ];
  return all.length <= listed ? all : [...all.slice(0, listed), `and ${all.length - listed} more`];
}

/** All that a replay should give again: not when it ran and how long it took. */
function shown(rollout: Rollout): object {
  const { start_time: _, ...record } = rollout.trajectory.toRecord();
  const plain: object = JSON.parse(JSON.stringify(record));
  return rollout.status === 'completed'
    ? { status: rollout.status, reward: rollout.reward, ...plain }
    : { status: rollout.status, failure: rollout.failure.code, ...plain };
}

function quoted(value: unknown): string {
  const text = value === undefined ? 'absent' : JSON.stringify(value);
  return text.length > 120 ? `${text.slice(0, 120)}…` : text;
}
