import type { ProgressOption } from '../progress/index.ts';
import type { RolloutCounts, RolloutGroup } from '../rollout/index.ts';
import { sumOf } from '../util/sums.ts';
import type { Estimate } from './estimate.ts';

interface ShownEvaluation {
  policy: string;
  reward: Estimate | null;
  success: Estimate | null;
  perScenario: readonly unknown[];
  counts: RolloutCounts;
}

interface EvaluationView {
  /** Call for each group that has ended. */
  onGroup: (group: RolloutGroup) => void;
  onEnd: (evaluation: ShownEvaluation) => void;
  close: () => void;
}

/** Opens a view of a running evaluation; null if nothing is to be shown. */
export async function openEvaluationView(
  option: ProgressOption | undefined,
  { name, total }: { name: string; total: number },
): Promise<EvaluationView | null> {
  if (option === false) return null;
  const { openProgress } = await import('../progress/index.ts');
  const view = openProgress(option, { title: `evaluating ${name}` });
  if (!view) return null;
  let done = 0;
  let scored = 0;
  let sum = 0;
  const report = () => {
    const metrics: Record<string, number> = scored > 0 ? { reward: sum / scored } : {};
    view.listen({ type: 'phase', phase: 'evaluation', done, total, metrics });
  };
  report();
  return {
    onGroup: ({ trajectories }) => {
      done++;
      if (trajectories.length > 0) {
        scored++;
        sum += sumOf(trajectories, ({ reward }) => reward ?? 0) / trajectories.length;
      }
      report();
    },
    onEnd: ({ policy, reward, success, perScenario, counts }) => {
      // Without a completed rollout there is no score to show.
      if (reward === null) return;
      view.listen({
        type: 'evaluated',
        name: 'evaluation',
        policy,
        score: { reward: reward.mean, success: success?.mean ?? null },
        scenarios: perScenario.length,
        scored: reward.count,
        counts,
        examples: [],
      });
    },
    close: view.close,
  };
}
