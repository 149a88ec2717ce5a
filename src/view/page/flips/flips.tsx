import { useEffect, useMemo } from 'preact/hooks';
import type { Flip, Flips as FlipsData, GroupDetail } from '../../api.ts';
import { useApi } from '../api-client.ts';
import { type Column, Columns } from '../group/columns.tsx';
import { formatNumber } from '../parts/format.ts';
import { useKeys } from '../parts/keys.ts';
import { KindButtons } from '../parts/kind-buttons.tsx';
import { Data, Nothing } from '../parts/states.tsx';
import { stepTitle } from '../parts/titles.ts';
import { addressOf, type PanelProps, setQuery } from '../router.ts';
import { DifferenceLine } from './interval.tsx';
import './flips.css';

/** Most scenarios in the list. */
const maxShown = 500;

const kinds = { better: 'Better', worse: 'Worse' };

/** Two checkpoints on the same scenarios: how much better, and which scenarios flipped, with both conversations. */
export function Flips({ params, query }: PanelProps<'runA' | 'whichA' | 'runB' | 'whichB'>) {
  const { runA, whichA, runB, whichB } = params;
  const path = ['flips', runA, whichA, runB, whichB].map(encodeURIComponent).join('/');
  const loaded = useApi<FlipsData>(path);
  return <Data of={loaded}>{(flips) => <FlipsPanel data={flips} query={query} />}</Data>;
}

function FlipsPanel({ data, query }: { data: FlipsData; query: PanelProps['query'] }) {
  const { a, b, measure, difference, pValue, wins, losses, ties, flips, onlyInA, onlyInB } = data;
  const kind = query.show === 'better' || query.show === 'worse' ? query.show : null;
  const shown = useMemo(
    () =>
      flips.filter(({ difference: by }) => (kind === 'worse' ? by < 0 : kind === 'better' ? by > 0 : true)),
    [flips, kind],
  );
  const at = Math.min(Number(query.at ?? 0), shown.length - 1);
  const choose = (index: number) =>
    setQuery({ at: Math.max(0, Math.min(shown.length - 1, index)) }, { replace: true });
  useKeys([
    { key: 'j', does: 'Next scenario', run: () => choose(at + 1) },
    { key: 'k', does: 'Previous scenario', run: () => choose(at - 1) },
  ]);
  const chosen = shown[at];
  useEffect(() => {
    document.querySelector('.flip[aria-current]')?.scrollIntoView({ block: 'nearest' });
  }, [at]);
  const onlyOne = [
    ...(onlyInA > 0 ? [`${onlyInA} only in the first`] : []),
    ...(onlyInB > 0 ? [`${onlyInB} only in the second`] : []),
  ];
  return (
    <>
      <div class="heading">
        <h1>
          {stepTitle(a.which)} and {stepTitle(b.which).toLowerCase()}
        </h1>
        <span class="muted">
          {a.run === b.run ? a.run : `${a.run} and ${b.run}`}: {a.policy} and {b.policy}
        </span>
      </div>
      {difference === null ? (
        <Nothing title="They share no scenario" />
      ) : (
        <section class="panel flips-head" aria-label="Difference">
          <div>
            <h2>Mean difference of {measure}, scenario by scenario</h2>
            <DifferenceLine {...difference} />
          </div>
          <dl class="figures">
            <div>
              <dt>Difference</dt>
              <dd>
                {difference.mean > 0 ? '+' : ''}
                {formatNumber(difference.mean)}{' '}
                {difference.low !== null && (
                  <small>
                    {formatNumber(difference.low)} to {formatNumber(difference.high)}
                  </small>
                )}
              </dd>
            </div>
            <div>
              <dt>Better, worse, the same</dt>
              <dd>
                {wins}, {losses}, {ties}
              </dd>
            </div>
            <div>
              <dt>p of the sign-flip test</dt>
              <dd>{pValue === null ? '–' : pValue < 0.001 ? '< 0.001' : formatNumber(pValue)}</dd>
            </div>
          </dl>
          {onlyOne.length > 0 && <p class="muted">Left out: scenarios {onlyOne.join(' and ')}.</p>}
        </section>
      )}
      {flips.length > 0 && (
        <section class="panel" aria-label="Scenarios that flipped">
          <div class="panel-head">
            <h2>{flips.length} scenarios changed</h2>
            <div class="buttons">
              <KindButtons
                kinds={kinds}
                chosen={kind}
                countOf={(one) => (one === 'better' ? wins : losses)}
                onChoose={(one) => setQuery({ show: one, at: null })}
              />
            </div>
          </div>
          <ul class="flips-list" aria-label="Scenarios, the largest change first">
            {shown.slice(0, maxShown).map((flip, index) => (
              <li key={flip.groupA}>
                <button
                  type="button"
                  class="flip"
                  aria-current={index === at ? 'true' : undefined}
                  onClick={() => choose(index)}
                >
                  <span class="flip-scenario" title={flip.scenario}>
                    {flip.title}
                  </span>
                  <span class="number">
                    {formatNumber(flip.a)} → <b>{formatNumber(flip.b)}</b>
                  </span>
                </button>
              </li>
            ))}
            {shown.length > maxShown && <li class="muted flip">and {shown.length - maxShown} more</li>}
          </ul>
        </section>
      )}
      {chosen && <Both data={data} flip={chosen} />}
    </>
  );
}

function Both({ data: { a, b }, flip }: { data: FlipsData; flip: Flip }) {
  const left = useApi<GroupDetail>(groupPath(a, flip.groupA));
  const right = useApi<GroupDetail>(groupPath(b, flip.groupB));
  return (
    <Data of={left}>
      {(before) => (
        <Data of={right}>
          {(after) => <Columns columns={[toColumn(before, flip.rolloutA), toColumn(after, flip.rolloutB)]} />}
        </Data>
      )}
    </Data>
  );
}

const groupPath = ({ run, which }: { run: string; which: string }, group: number): string =>
  `runs/${encodeURIComponent(run)}/steps/${encodeURIComponent(which)}/groups/${group}`;

function toColumn({ run, which, group, rollouts }: GroupDetail, at: number): Column {
  const rollout = rollouts[at];
  return {
    key: `${run} ${which}`,
    title: `${stepTitle(which)}, rollout ${at}`,
    href: addressOf(['runs', run, 'steps', which, 'groups', group, 'rollouts', at]),
    reward: rollout?.reward ?? null,
    note: rollout?.failure ?? undefined,
    turns: rollout?.turns ?? [],
  };
}
