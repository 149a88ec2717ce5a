import type { Lane, Timeline } from '../../api.ts';
import { formatNumber, formatSeconds, inWords } from '../parts/format.ts';
import { VirtualList } from '../parts/virtual-list.tsx';
import { addressOf } from '../router.ts';
import { placeOn, type Stretch, tickLabel, ticksOf } from './layout.ts';
import { percent, Track } from './track.tsx';

export const laneAddress = ({ run, which }: Timeline, { group, rollout }: Lane): string =>
  addressOf(['runs', run, 'steps', which, 'groups', group, 'rollouts', rollout]);

/** What a lane shows besides its times. */
interface LaneLook {
  /** Coloured by the version of its policy, instead of by what it waits for. */
  byVersion: boolean;
  newest: number;
  isStraggler: (lane: Lane) => boolean;
}

/** Height of the page's bar and of the axis and the trainer below it, in px. */
const barAndHead = 48 + 54;

/** The axis and the trainer, which stay in sight, and a lane for each rollout. */
export function Lanes({
  timeline,
  lanes,
  cursor,
  look,
}: {
  timeline: Timeline;
  lanes: readonly Lane[];
  cursor: number;
  look: LaneLook;
}) {
  const whole = { start: 0, end: timeline.milliseconds };
  return (
    <>
      <div class="lanes-head">
        <div class="lane axis-lane">
          <span />
          <div class="track axis" aria-hidden="true">
            {ticksOf(whole.end, 8).map((tick) => (
              <span key={tick} style={{ left: percent(tick / whole.end) }}>
                {tickLabel(tick)}
              </span>
            ))}
          </div>
          <span />
        </div>
        <div class="lane">
          <span class="muted">Trainer</span>
          <div class="track">
            {timeline.trainer.map(({ name, start, end }) => (
              <Bar
                key={`${name} ${start}`}
                whole={whole}
                stretch={{ start, end }}
                look="training"
                title={`${name}, ${formatSeconds((end - start) / 1000)}`}
              />
            ))}
          </div>
          <span />
        </div>
      </div>
      <VirtualList
        items={lanes}
        rowHeight={22}
        label="Rollouts"
        cursor={cursor}
        coveredTop={barAndHead}
        keyOf={({ group, rollout }) => `${group} ${rollout}`}
      >
        {(lane) => <LaneRow lane={lane} href={laneAddress(timeline, lane)} whole={whole} look={look} />}
      </VirtualList>
    </>
  );
}

function LaneRow({
  lane,
  href,
  whole,
  look: { byVersion, newest, isStraggler },
}: {
  lane: Lane;
  href: string;
  whole: Stretch;
  look: LaneLook;
}) {
  const { group, rollout, status, reward, version, start, end, stretches } = lane;
  const policy = version === null ? 'unknown policy' : `policy version ${version}`;
  const isSlow = isStraggler(lane);
  return (
    <a
      class="lane"
      data-straggler={isSlow ? '' : undefined}
      href={href}
      title={`Group ${group}, rollout ${rollout}: ${formatSeconds((end - start) / 1000)}, ${policy}`}
    >
      <span class="lane-name">
        {group}.{rollout}
        {isSlow && <span class="hidden-text"> straggler</span>}
      </span>
      {byVersion || stretches.length === 0 ? (
        <div class="track">
          <Bar
            whole={whole}
            stretch={lane}
            look={byVersion ? ageClass(version === null ? null : newest - version) : 'own'}
            title={policy}
          />
        </div>
      ) : (
        <Track whole={whole} stretches={stretches} offset={start} />
      )}
      <span class="number">{status === 'completed' ? formatNumber(reward) : inWords(status)}</span>
    </a>
  );
}

function Bar({
  whole,
  stretch,
  look,
  title,
}: {
  whole: Stretch;
  stretch: Stretch;
  look: string;
  title: string;
}) {
  const place = placeOn(whole, stretch);
  return (
    place && (
      <i
        class={`stretch ${look}`}
        style={{ left: percent(place.left), width: percent(place.width) }}
        title={title}
      />
    )
  );
}

/** The newest version is the strongest; from three behind they look alike. */
const ageClass = (age: number | null): string => (age === null ? 'own' : `age-${Math.min(3, age)}`);

/** What the shades of the versions in `lanes` mean, the newest first. */
export function VersionLegend({ lanes, newest }: { lanes: readonly Lane[]; newest: number }) {
  const versions = [...new Set(lanes.flatMap(({ version }) => version ?? []))].sort((a, b) => b - a);
  return (
    <ul class="legend" aria-label="What the colours mean">
      {versions.slice(0, 4).map((version) => (
        <li key={version}>
          <i class={`swatch stretch ${ageClass(newest - version)}`} /> version {version}
        </li>
      ))}
      {versions.length > 4 && <li>and {versions.length - 4} older</li>}
    </ul>
  );
}
