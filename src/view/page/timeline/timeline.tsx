import { useMemo, useState } from 'preact/hooks';
import { largestOf } from '../../../util/extremes.ts';
import type { Lane, Timeline as TimelineData } from '../../api.ts';
import { useApi } from '../api-client.ts';
import { Figures } from '../parts/figures.tsx';
import { counted, formatSeconds, formatShare, shownOf } from '../parts/format.ts';
import { useKeys } from '../parts/keys.ts';
import { KindButtons } from '../parts/kind-buttons.tsx';
import { Data, Nothing } from '../parts/states.tsx';
import { stepTitle } from '../parts/titles.ts';
import { goTo, type PanelProps, setQuery } from '../router.ts';
import { Lanes, laneAddress, VersionLegend } from './lanes.tsx';
import { gapsIn, median, stragglerFactor } from './layout.ts';
import { TrackLegend } from './track.tsx';
import './timeline.css';
import { sumOf } from '../../../util/sums.ts';

/** The rollouts of a step as lanes over time, with the trainer above them. */
export function Timeline({ params, query }: PanelProps<'run' | 'which'>) {
  const path = ['runs', params.run, 'steps', params.which, 'timeline'].map(encodeURIComponent).join('/');
  const loaded = useApi<TimelineData>(path);
  return (
    <Data of={loaded}>
      {(timeline) =>
        timeline.lanes.length === 0 ? (
          <>
            <h1>{stepTitle(timeline.which)}: timeline</h1>
            <Nothing title="No times">The rollouts of this record have no start times.</Nothing>
          </>
        ) : (
          <TimelinePanel timeline={timeline} query={query} />
        )
      }
    </Data>
  );
}

const kinds = { stragglers: 'Stragglers', stale: 'Stale', unfinished: 'Failed' } as const;
type Kind = keyof typeof kinds;

function TimelinePanel({ timeline, query }: { timeline: TimelineData; query: PanelProps['query'] }) {
  const { which, milliseconds, lanes, trainer } = timeline;
  const usual = useMemo(() => median(lanes.map(({ start, end }) => end - start)), [lanes]);
  const newest = largestOf(lanes.map(({ version }) => version ?? 0));
  const isOfKind: Record<Kind, (lane: Lane) => boolean> = {
    stragglers: ({ start, end }) => end - start > stragglerFactor * usual,
    stale: ({ version }) => version !== null && version < newest,
    unfinished: ({ status }) => status === 'failed' || status === 'cancelled',
  };
  const kind = (Object.keys(kinds) as Kind[]).find((one) => one === query.show);
  const byVersion = query.colour === 'version';
  const longestFirst = query.sort === 'longest';
  const shown = useMemo(() => {
    const ofKind = kind === undefined ? lanes : lanes.filter(isOfKind[kind]);
    return longestFirst ? ofKind.toSorted((a, b) => b.end - b.start - (a.end - a.start)) : ofKind;
  }, [lanes, kind, longestFirst]);

  const [cursor, setCursor] = useState(-1);
  const chosen = shown[Math.max(0, cursor)];
  useKeys([
    { key: 'j', does: 'Next rollout', run: () => setCursor(Math.min(cursor + 1, shown.length - 1)) },
    { key: 'k', does: 'Previous rollout', run: () => setCursor(Math.max(cursor - 1, 0)) },
    { key: 'Enter', does: 'Open the rollout', run: () => chosen && goTo(laneAddress(timeline, chosen)) },
  ]);
  const choose = (changes: Parameters<typeof setQuery>[0]) => {
    setCursor(-1);
    setQuery(changes);
  };
  return (
    <>
      <div class="heading">
        <h1>{stepTitle(which)}: timeline</h1>
        <span class="muted">
          {counted(lanes.length, 'rollout')} in {formatSeconds(milliseconds / 1000)}
        </span>
      </div>
      <TimelineFigures timeline={timeline} usual={usual} isOfKind={isOfKind} />
      <section class="panel" aria-label="Lanes">
        <div class="panel-head">
          <h2>{shownOf(shown.length, lanes.length, 'rollout')}</h2>
          <fieldset class="buttons" aria-label="Which rollouts">
            <KindButtons
              kinds={kinds}
              chosen={kind ?? null}
              countOf={(one) => lanes.filter(isOfKind[one]).length}
              onChoose={(one) => choose({ show: one })}
            />
            <button
              type="button"
              class="button"
              aria-pressed={longestFirst}
              onClick={() => choose({ sort: longestFirst ? null : 'longest' })}
            >
              Longest first
            </button>
            <button
              type="button"
              class="button"
              aria-pressed={byVersion}
              onClick={() => setQuery({ colour: byVersion ? null : 'version' })}
            >
              Policy versions
            </button>
          </fieldset>
        </div>
        <div class="lanes-legend">
          {byVersion ? <VersionLegend lanes={lanes} newest={newest} /> : <TrackLegend />}
          {trainer.length > 0 && (
            <ul class="legend" aria-label="What the trainer's lane means">
              <li>
                <i class="swatch stretch training" /> trainer
              </li>
            </ul>
          )}
        </div>
        <Lanes
          timeline={timeline}
          lanes={shown}
          cursor={cursor}
          look={{ byVersion, newest, isStraggler: isOfKind.stragglers }}
        />
      </section>
    </>
  );
}

function TimelineFigures({
  timeline: { lanes, trainer, milliseconds },
  usual,
  isOfKind,
}: {
  timeline: TimelineData;
  usual: number;
  isOfKind: Record<Kind, (lane: Lane) => boolean>;
}) {
  const whole = { start: 0, end: milliseconds };
  const idle = sumOf(gapsIn(whole, trainer), (gap) => gap.end - gap.start);
  const longest = largestOf(lanes.map(({ start, end }) => end - start));
  const figures: readonly (readonly [name: string, value: string, note: string])[] = [
    ['Median rollout', formatSeconds(usual / 1000), ''],
    ['Longest', formatSeconds(longest / 1000), ''],
    ['Stragglers', String(lanes.filter(isOfKind.stragglers).length), `over ${stragglerFactor}× the median`],
    ['Stale', String(lanes.filter(isOfKind.stale).length), 'of an older policy'],
    ['Trainer idle', formatShare(milliseconds > 0 ? idle / milliseconds : null), 'of this time'],
  ];
  return <Figures figures={figures} />;
}
