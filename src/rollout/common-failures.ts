import type { Rollout } from './rollout.ts';

/** The reasons that ended most rollouts, with how many and one message each, for people. */
export function commonFailures(groups: readonly { rollouts: readonly Rollout[] }[]): string {
  const counts = new Map<string, { count: number; message: string }>();
  for (const rollout of groups.flatMap((group) => group.rollouts)) {
    if (rollout.status === 'completed') continue;
    const { code, message } = rollout.failure;
    const known = counts.get(code);
    counts.set(code, { count: (known?.count ?? 0) + 1, message: known?.message ?? message });
  }
  return [...counts]
    .sort(([, a], [, b]) => b.count - a.count)
    .slice(0, 3)
    .map(([code, { count, message }]) => `${count} x ${code} (${message})`)
    .join('; ');
}
