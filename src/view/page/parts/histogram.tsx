import { largestOf } from '../../../util/extremes.ts';
import { formatNumber } from './format.ts';
import './histogram.css';

/** A bar: how many values are at least `from` and less than `to`, or, in the last bar, at most `to`. */
interface Bin {
  from: number;
  to: number;
  count: number;
}

/** Bars that can be chosen; choosing the chosen one again clears the choice. */
export function Histogram({
  bins,
  chosen,
  label,
  onChoose,
}: {
  bins: readonly Bin[];
  /** Index of the chosen bar, or null. */
  chosen: number | null;
  label: string;
  onChoose: (index: number | null) => void;
}) {
  const most = largestOf(
    bins.map(({ count }) => count),
    1,
  );
  return (
    <fieldset class="histogram">
      <legend class="hidden-text">{label}</legend>
      {bins.map((bin, index) => {
        const range =
          bin.from === bin.to
            ? formatNumber(bin.from)
            : `${formatNumber(bin.from)} to ${formatNumber(bin.to)}`;
        return (
          <button
            key={bin.from}
            type="button"
            class="bin"
            aria-pressed={index === chosen}
            title={`${range}: ${bin.count}`}
            disabled={bin.count === 0}
            onClick={() => onChoose(index === chosen ? null : index)}
          >
            <span class="bin-count">
              {bin.count > 0 ? bin.count : ''}
              <span class="hidden-text"> rollouts with the reward </span>
            </span>
            <span class="bin-bar" style={{ height: `${(bin.count / most) * 100}%` }} />
            <span class="bin-from">{formatNumber(bin.from)}</span>
          </button>
        );
      })}
    </fieldset>
  );
}
