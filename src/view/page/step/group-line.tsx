import { meanOf } from '../../../util/sums.ts';
import type { GroupRow } from '../../api.ts';
import { formatNumber } from '../parts/format.ts';
import { Tag } from '../parts/tag.tsx';

/** A group in one line: its scenario, its rewards on the axis of the whole step, and what is wrong with it. */
export function GroupLine({
  group: { group, title, scenario, seat, rollouts, hasSignal, isSolved, dropped },
  range,
  href,
}: {
  group: GroupRow;
  /** Smallest and largest reward of the step. */
  range: { from: number; to: number };
  href: string;
}) {
  const rewards = rollouts.flatMap(({ reward }) => reward ?? []);
  const mean = meanOf(rewards);
  const failed = rollouts.filter(({ status }) => status === 'failed').length;
  return (
    <a class="group-line" href={href}>
      <span class="muted group-number">{group}</span>
      <span class="group-scenario" title={scenario}>
        {title}
      </span>
      <span class="group-state">
        {seat && !seat.trains ? (
          <span class="muted">does not train</span>
        ) : dropped !== null ? (
          <Tag is="warn" title={dropped}>
            left out
          </Tag>
        ) : (
          !hasSignal && <span class="muted">{isSolved ? 'all solved it' : 'no signal'}</span>
        )}
        {failed > 0 && <Tag is="bad">{failed} failed</Tag>}
      </span>
      <RewardStrip rewards={rewards} range={range} />
      <b class="number">{formatNumber(mean)}</b>
    </a>
  );
}

const [width, height, edge] = [120, 20, 6];

/** A dot for each reward; equal ones are darker. */
function RewardStrip({
  rewards,
  range,
}: {
  rewards: readonly number[];
  range: { from: number; to: number };
}) {
  const span = range.to - range.from;
  const x = (reward: number) => edge + (span === 0 ? 0.5 : (reward - range.from) / span) * (width - 2 * edge);
  return (
    <svg
      class="reward-strip"
      width={width}
      height={height}
      role="img"
      aria-label={`Rewards ${rewards.map(formatNumber).join(', ') || 'none'}`}
    >
      <line x1={edge} x2={width - edge} y1={height / 2} y2={height / 2} />
      {rewards.map((reward, index) => (
        <circle key={index} cx={x(reward)} cy={height / 2} r="4" />
      ))}
    </svg>
  );
}
