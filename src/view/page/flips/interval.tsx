import { largestOf } from '../../../util/extremes.ts';
import { formatNumber } from '../parts/format.ts';

interface IntervalProps {
  mean: number;
  /** Ends of the 95% interval; null if there are too few pairs for one. */
  low: number | null;
  high: number | null;
}

/** The mean difference with its interval on a line through zero: beyond zero, it is more than chance. */
export function DifferenceLine({ mean, low, high }: IntervalProps) {
  const ends = [mean, low ?? mean, high ?? mean];
  const reach = largestOf(ends.map(Math.abs), 1e-9) * 1.15;
  const x = (value: number) => `${(50 + (value / reach) * 48).toFixed(2)}%`;
  const isClear = low !== null && high !== null && (low > 0 || high < 0);
  const tone = !isClear ? 'even' : mean > 0 ? 'better' : 'worse';
  const interval =
    low !== null && high !== null ? `, 95 % interval ${formatNumber(low)} to ${formatNumber(high)}` : '';
  return (
    <svg
      class="difference-line"
      data-tone={tone}
      role="img"
      aria-label={`Mean difference ${formatNumber(mean)}${interval}`}
    >
      <line class="axis" x1="0" x2="100%" y1="22" y2="22" />
      <line class="axis" x1="50%" x2="50%" y1="10" y2="34" />
      <text x="50%" y="48" text-anchor="middle">
        0
      </text>
      <text x="0" y="48">
        worse
      </text>
      <text x="100%" y="48" text-anchor="end">
        better
      </text>
      {low !== null && high !== null && (
        <>
          <line class="whisker" x1={x(low)} x2={x(high)} y1="22" y2="22" />
          <line class="whisker-end" x1={x(low)} x2={x(low)} y1="16" y2="28" />
          <line class="whisker-end" x1={x(high)} x2={x(high)} y1="16" y2="28" />
        </>
      )}
      <circle cx={x(mean)} cy="22" r="5" />
    </svg>
  );
}
