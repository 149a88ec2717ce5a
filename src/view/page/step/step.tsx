import { useMemo, useState } from 'preact/hooks';
import { largestOf, smallestOf } from '../../../util/extremes.ts';
import type { GroupRow, StepDetail } from '../../api.ts';
import { useApi } from '../api-client.ts';
import { type Figure, Figures } from '../parts/figures.tsx';
import { counted, formatCount, formatNumber, formatSeconds, formatShare, shownOf } from '../parts/format.ts';
import { Histogram } from '../parts/histogram.tsx';
import { useKeys } from '../parts/keys.ts';
import { KindButtons } from '../parts/kind-buttons.tsx';
import { Data, Nothing } from '../parts/states.tsx';
import { stepTitle } from '../parts/titles.ts';
import { VirtualList } from '../parts/virtual-list.tsx';
import { addressOf, goTo, type PanelProps, setQuery } from '../router.ts';
import { Failures } from './failures.tsx';
import { GroupLine } from './group-line.tsx';
import { Opponents } from './opponents.tsx';
import './step.css';

/** A step or an evaluation: its counts, rewards, failures and groups. */
export function Step({ params, query }: PanelProps<'run' | 'which'>) {
  const path = ['runs', params.run, 'steps', params.which].map(encodeURIComponent).join('/');
  const loaded = useApi<StepDetail>(path);
  return <Data of={loaded}>{(step) => <StepPanel step={step} query={query} />}</Data>;
}

const kinds = { signal: 'With signal', silent: 'Without signal', failed: 'With failures' } as const;
type Kind = keyof typeof kinds;

const isOfKind: Record<Kind, (group: GroupRow) => boolean> = {
  signal: ({ hasSignal }) => hasSignal,
  silent: ({ hasSignal }) => !hasSignal,
  failed: ({ rollouts }) => rollouts.some(({ status }) => status === 'failed' || status === 'cancelled'),
};

function StepPanel({ step, query }: { step: StepDetail; query: PanelProps['query'] }) {
  const { groups, bins, failures, problems } = step;
  const [cursor, setCursor] = useState(-1);
  const bin = query.bin === undefined ? null : Number(query.bin);
  const kind = Object.hasOwn(kinds, query.show ?? '') ? (query.show as Kind) : null;
  const filter = (query.filter ?? '').toLowerCase();
  const shown = useMemo(
    () =>
      groups.filter(
        (group) =>
          (kind === null || isOfKind[kind](group)) &&
          (bin === null || group.rollouts.some(({ reward }) => isIn(bins, bin, reward))) &&
          `${group.title} ${group.scenario}`.toLowerCase().includes(filter),
      ),
    [groups, bins, bin, kind, filter],
  );
  const to = (which: string | null) => which !== null && goTo(addressOf(['runs', step.run, 'steps', which]));
  const open = (group: GroupRow | undefined) =>
    group && goTo(addressOf(['runs', step.run, 'steps', step.which, 'groups', group.group]));
  useKeys([
    { key: 'j', does: 'Next group', run: () => setCursor(Math.min(cursor + 1, shown.length - 1)) },
    { key: 'k', does: 'Previous group', run: () => setCursor(Math.max(cursor - 1, 0)) },
    { key: 'Enter', does: 'Open the group', run: () => open(shown[Math.max(cursor, 0)]) },
    { key: 'ArrowRight', does: 'Next step', run: () => to(step.next) },
    { key: 'ArrowLeft', does: 'Previous step', run: () => to(step.previous) },
  ]);
  const rewards = groups.flatMap(({ rollouts }) => rollouts.flatMap(({ reward }) => reward ?? []));
  const range = { from: smallestOf(rewards), to: largestOf(rewards) };
  return (
    <>
      <Head step={step} />
      {problems.length > 0 && (
        <p class="tag warn" role="alert">
          Left out: {problems.join('; ')}
        </p>
      )}
      {bins.length > 0 && (
        <section class="panel" aria-label="Rewards">
          <div class="panel-head">
            <h2>
              {groups.some(({ seat }) => seat)
                ? `${counted(rewards.length, 'reward')}, one for each seat that played`
                : `Rewards of ${counted(rewards.length, 'rollout')}`}
            </h2>
            {bin !== null && (
              <button type="button" class="button" onClick={() => setQuery({ bin: null })}>
                All rewards
              </button>
            )}
          </div>
          <Histogram
            bins={bins}
            chosen={bin}
            label="Rollouts by reward; a bar shows only its groups"
            onChoose={(index) => setQuery({ bin: index })}
          />
        </section>
      )}
      {step.report !== null && step.report.opponents.length > 0 && (
        <Opponents opponents={step.report.opponents} />
      )}
      {failures.length > 0 && <Failures step={step} />}
      <section class="panel" aria-label="Groups">
        <div class="panel-head">
          <h2>{shownOf(shown.length, groups.length, 'group')}</h2>
          <input
            class="field"
            type="search"
            placeholder="Filter"
            aria-label="Filter groups by their scenario"
            data-filter
            value={query.filter ?? ''}
            onInput={({ currentTarget }) => setQuery({ filter: currentTarget.value }, { replace: true })}
          />
          <fieldset class="buttons" aria-label="Which groups">
            <KindButtons
              kinds={kinds}
              chosen={kind}
              countOf={(one) => groups.filter(isOfKind[one]).length}
              onChoose={(one) => setQuery({ show: one })}
            />
          </fieldset>
        </div>
        {shown.length === 0 ? (
          <Nothing title={groups.length === 0 ? 'No group has ended yet' : 'No group fits'} />
        ) : (
          <VirtualList
            items={shown}
            rowHeight={44}
            label="Groups"
            cursor={cursor}
            keyOf={({ group }) => group}
          >
            {(group) => (
              <GroupLine
                group={group}
                range={range}
                href={addressOf(['runs', step.run, 'steps', step.which, 'groups', group.group])}
              />
            )}
          </VirtualList>
        )}
      </section>
    </>
  );
}

function isIn(bins: StepDetail['bins'], index: number, reward: number | null): boolean {
  const bin = bins[index];
  if (!bin || reward === null) return false;
  const isLast = index === bins.length - 1;
  return reward >= bin.from && (reward < bin.to || ((isLast || bin.from === bin.to) && reward <= bin.to));
}

function Head({ step: detail }: { step: StepDetail }) {
  const { run, which, step, report, counts, reward, groups, previous, next } = detail;
  const { dispatched, completed, failed, cancelled } = counts;
  const comparable = groups.filter(({ seat }) => seat === null || seat.trains);
  const figures: readonly Figure[] = [
    ['Reward', formatNumber(report?.reward ?? reward)],
    ...(report && report.success !== null ? [['Success', formatShare(report.success)] as const] : []),
    ['Completed', String(completed), `of ${counted(dispatched, 'rollout')}`],
    ...(failed ? [['Failed', String(failed)] as const] : []),
    ...(cancelled ? [['Cancelled', String(cancelled)] as const] : []),
    ...(step === null
      ? []
      : [
          [
            'Signal',
            String(comparable.filter(({ hasSignal }) => hasSignal).length),
            `of ${counted(comparable.length, 'group')}`,
          ] as const,
        ]),
    ...(report && report.staleness.max > 0
      ? [['Staleness', formatNumber(report.staleness.mean)] as const]
      : []),
    ...(report ? [['Tokens', formatCount(report.usage.sampledTokens), 'sampled'] as const] : []),
    ...(report ? [['Time', formatSeconds(report.seconds)] as const] : []),
  ];
  return (
    <>
      <div class="heading">
        <h1>{stepTitle(which)}</h1>
        {report ? (
          <span class="muted">{report.policy}</span>
        ) : (
          step !== null && <span class="muted">Goes on</span>
        )}
        <span class="spacer" />
        <div class="buttons">
          <a class="button" href={addressOf(['runs', run, 'steps', which, 'timeline'])}>
            Timeline
          </a>
          <StepLink run={run} which={previous} word="Previous" />
          <StepLink run={run} which={next} word="Next" />
        </div>
      </div>
      <Figures figures={figures} />
    </>
  );
}

function StepLink({ run, which, word }: { run: string; which: string | null; word: string }) {
  if (which === null)
    return (
      <button type="button" class="button" disabled>
        {word}
      </button>
    );
  return (
    <a class="button" href={addressOf(['runs', run, 'steps', which])} title={stepTitle(which)}>
      {word}
    </a>
  );
}
