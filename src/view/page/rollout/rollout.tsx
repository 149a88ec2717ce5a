import { sumOf } from '../../../util/sums.ts';
import type { HistoryDetail, RolloutDetail, TurnView } from '../../api.ts';
import { useApi } from '../api-client.ts';
import { type Figure, Figures } from '../parts/figures.tsx';
import { counted, formatNumber, formatSeconds, formatSigned, inWords } from '../parts/format.ts';
import { useKeys } from '../parts/keys.ts';
import { Near } from '../parts/near.tsx';
import { Data } from '../parts/states.tsx';
import { Tag } from '../parts/tag.tsx';
import { addressOf, goTo, type PanelProps, place, setQuery } from '../router.ts';
import { Track, TrackLegend } from '../timeline/track.tsx';
import { Tokens } from '../tokens/tokens.tsx';
import { ModelText } from './model-text.tsx';
import { Turn, Turns } from './turn.tsx';

/** A rollout: its conversations or its tokens, its rewards, and what it waited for. */
export function Rollout({ params, query }: PanelProps<'run' | 'which' | 'group' | 'rollout'>) {
  const { run, which, group, rollout } = params;
  const path = ['runs', run, 'steps', which, 'groups', group, 'rollouts', rollout];
  const loaded = useApi<RolloutDetail>(path.map(encodeURIComponent).join('/'));
  return <Data of={loaded}>{(detail) => <RolloutPanel detail={detail} query={query} />}</Data>;
}

function RolloutPanel({ detail, query }: { detail: RolloutDetail; query: PanelProps['query'] }) {
  const { run, which, group, rollout, siblings, histories, failureDetail } = detail;
  const at = siblings.indexOf(rollout);
  const sibling = (by: number): string | null => {
    const other = siblings[at + by];
    return other === undefined
      ? null
      : addressOf(['runs', run, 'steps', which, 'groups', group, 'rollouts', other], { view: query.view });
  };
  const go = (address: string | null) => address !== null && goTo(address);
  const showsTokens = query.view === 'tokens';
  const toggle = () => setQuery({ view: showsTokens ? null : 'tokens', token: null });
  useKeys([
    { key: 'v', does: 'Conversation or tokens', run: toggle },
    { key: ']', does: 'Next rollout', run: () => go(sibling(1)) },
    { key: '[', does: 'Previous rollout', run: () => go(sibling(-1)) },
  ]);
  return (
    <>
      <div class="heading">
        <h1>Rollout {rollout}</h1>
        {detail.status !== 'completed' && (
          <Tag is={detail.status === 'not_played' ? 'plain' : 'bad'}>{inWords(detail.status)}</Tag>
        )}
        <span class="muted">{detail.policy}</span>
        <span class="spacer" />
        <div class="buttons">
          <Near word="Previous" address={sibling(-1)} />
          <Near word="Next" address={sibling(1)} />
        </div>
      </div>
      <RolloutFigures detail={detail} />
      {failureDetail && (
        <section class="panel failure" role="alert">
          <Tag is="bad">{failureDetail.code}</Tag>
          <ModelText text={failureDetail.message} />
          {failureDetail.stack && (
            <div class="stack mono">
              <ModelText text={failureDetail.stack} />
            </div>
          )}
        </section>
      )}
      {detail.stretches.length > 0 && (
        <section class="panel" aria-label="Time">
          <div class="panel-head">
            <h2>Time</h2>
            <TrackLegend stretches={detail.stretches} />
          </div>
          <div class="own-track">
            <Track whole={{ start: 0, end: detail.milliseconds }} stretches={detail.stretches} />
          </div>
        </section>
      )}
      <fieldset class="buttons" aria-label="What is shown">
        {(['conversation', 'tokens'] as const).map((view) => (
          <button
            key={view}
            type="button"
            class="button"
            aria-pressed={(view === 'tokens') === showsTokens}
            onClick={() => setQuery({ view: view === 'tokens' ? 'tokens' : null, token: null })}
          >
            {view === 'tokens' ? 'Tokens' : 'Conversation'}
          </button>
        ))}
      </fieldset>
      {histories.map((history, index) => (
        <History key={index} history={history} index={index} of={histories.length} query={query} />
      ))}
      <Facts detail={detail} />
    </>
  );
}

function History({
  history,
  index,
  of,
  query,
}: {
  history: HistoryDetail;
  index: number;
  of: number;
  query: PanelProps['query'];
}) {
  const title = index === 0 ? 'Conversation' : `Conversation ${index + 1} of ${of}`;
  const tokensHref = ({ call }: TurnView): string | undefined => {
    const reply = history.replies.findIndex((one) => one.call === call);
    if (call === undefined || reply < 0) return undefined;
    const before = sumOf(history.replies.slice(0, reply), ({ tokens }) => tokens.length);
    return addressOf(place.peek().path, { view: 'tokens', token: `${index}.${before}` });
  };
  return (
    <section class="panel" aria-label={title}>
      <div class="panel-head">
        <h2>{title}</h2>
        {history.tools.length > 0 && (
          <span class="muted">
            {counted(history.tools.length, 'tool')}: {history.tools.slice(0, 12).join(', ')}
          </span>
        )}
      </div>
      {query.view === 'tokens' ? (
        <Tokens history={history} index={index} query={query} />
      ) : (
        <Turns label={title}>
          {history.turns.map((turn, at) => (
            <Turn key={at} turn={turn} tokensHref={tokensHref(turn)} />
          ))}
        </Turns>
      )}
    </section>
  );
}

function RolloutFigures({ detail }: { detail: RolloutDetail }) {
  const { reward, advantage, histories, milliseconds, metrics, stopReason, attempt } = detail;
  const tokens = sumOf(
    histories.flatMap(({ replies }) => replies),
    (reply) => reply.tokens.length,
  );
  const figures: readonly Figure[] = [
    ['Reward', formatNumber(reward)],
    ...(advantage === null ? [] : [['Advantage', formatSigned(advantage)] as const]),
    ...Object.entries(metrics).map(([name, value]) => [inWords(name), formatNumber(value)] as const),
    ['Tokens', tokens.toLocaleString('en')],
    ['Time', formatSeconds(milliseconds / 1000)],
    ...(stopReason === null ? [] : [['Stopped by', inWords(stopReason)] as const]),
    ...(attempt > 0 ? [['Attempt', String(attempt + 1)] as const] : []),
  ];
  return <Figures figures={figures} />;
}

/** What else the record holds. */
function Facts({
  detail: { scenario, outcome, metadata, logs, seed, startTime },
}: {
  detail: RolloutDetail;
}) {
  const facts = { scenario, outcome, metadata, seed, start: startTime };
  return (
    <details class="panel">
      <summary>
        Scenario, outcome, metadata{logs.length > 0 && `, ${counted(logs.length, 'log line')}`}
      </summary>
      <div class="scenario">
        <ModelText text={JSON.stringify(facts, null, 2)} />
        {logs.length > 0 && <ModelText text={logs.join('\n')} />}
      </div>
    </details>
  );
}
