import type { Stretch } from '../../api.ts';
import { formatSeconds } from '../parts/format.ts';
import { type Stretch as Extent, placeOn } from './layout.ts';
import './timeline.css';

const words: Record<Stretch['kind'], string> = {
  queue: 'waits for a slot',
  sampling: 'sampling',
  tool: 'tools',
  reward: 'rewards',
  own: 'agent',
};

/** What a rollout waited for, from left to right. */
export function Track({
  whole,
  stretches,
  offset = 0,
}: {
  /** The axis, in ms. */
  whole: Extent;
  stretches: readonly Stretch[];
  /** Where the times of the stretches begin on the axis. */
  offset?: number;
}) {
  return (
    <div class="track">
      {stretches.map(({ kind, name, start, end }) => {
        const place = placeOn(whole, { start: start + offset, end: end + offset });
        return (
          place && (
            <i
              key={`${kind} ${name} ${start}`}
              class={`stretch ${kind}`}
              style={{ left: percent(place.left), width: percent(place.width) }}
              title={`${name}: ${words[kind]}, ${formatSeconds((end - start) / 1000)}`}
            />
          )
        );
      })}
    </div>
  );
}

export const percent = (share: number): string => `${(share * 100).toFixed(3)}%`;

/** What the colours mean; with `stretches`, only the kinds among them, with their time. */
export function TrackLegend({ stretches }: { stretches?: readonly Stretch[] }) {
  const kinds = (Object.keys(words) as Stretch['kind'][]).map((kind) => ({
    kind,
    ms: stretches?.reduce((sum, one) => sum + (one.kind === kind ? one.end - one.start : 0), 0),
  }));
  return (
    <ul class="legend" aria-label="What the colours mean">
      {kinds.map(
        ({ kind, ms }) =>
          ms !== 0 && (
            <li key={kind}>
              <i class={`swatch stretch ${kind}`} /> {words[kind]}
              {ms !== undefined && <b>{ms < 100 ? `${Math.ceil(ms)} ms` : formatSeconds(ms / 1000)}</b>}
            </li>
          ),
      )}
    </ul>
  );
}
