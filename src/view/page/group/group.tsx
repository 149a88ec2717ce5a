import { useState } from 'preact/hooks';
import type { GroupDetail, RolloutSummary } from '../../api.ts';
import { useApi } from '../api-client.ts';
import { formatNumber, formatSeconds, formatSigned, inWords } from '../parts/format.ts';
import { useKeys } from '../parts/keys.ts';
import { Near } from '../parts/near.tsx';
import { Data } from '../parts/states.tsx';
import { numbers, TableHead } from '../parts/table-head.tsx';
import { Tag } from '../parts/tag.tsx';
import { ModelText } from '../rollout/model-text.tsx';
import { addressOf, goTo, type PanelProps } from '../router.ts';
import { type Column, Columns } from './columns.tsx';
import './group.css';

/** A group: all rollouts of a scenario beside each other, with their rewards and the place where they part. */
export function Group({ params }: PanelProps<'run' | 'which' | 'group'>) {
  const { run, which, group } = params;
  const path = ['runs', run, 'steps', which, 'groups', group].map(encodeURIComponent).join('/');
  const loaded = useApi<GroupDetail>(path);
  return <Data of={loaded}>{(detail) => <GroupPanel detail={detail} />}</Data>;
}

const rolloutAddress = ({ run, which, group }: GroupDetail, rollout: number) =>
  addressOf(['runs', run, 'steps', which, 'groups', group, 'rollouts', rollout]);

function GroupPanel({ detail }: { detail: GroupDetail }) {
  const { run, which, group, seat, rollouts, previous, next, title, scenario } = detail;
  const [cursor, setCursor] = useState(-1);
  const groupAddress = (number: number | null) =>
    number === null ? null : addressOf(['runs', run, 'steps', which, 'groups', number]);
  const go = (address: string | null) => address !== null && goTo(address);
  useKeys([
    { key: 'j', does: 'Next rollout', run: () => setCursor(Math.min(cursor + 1, rollouts.length - 1)) },
    { key: 'k', does: 'Previous rollout', run: () => setCursor(Math.max(cursor - 1, 0)) },
    { key: 'Enter', does: 'Open the rollout', run: () => go(rolloutAddress(detail, Math.max(cursor, 0))) },
    { key: 'ArrowRight', does: 'Next group', run: () => go(groupAddress(next)) },
    { key: 'ArrowLeft', does: 'Previous group', run: () => go(groupAddress(previous)) },
  ]);
  return (
    <>
      <div class="heading">
        <h1>Group {group}</h1>
        {seat && (
          <span class="muted">
            seat {seat.name}: {seat.model}
          </span>
        )}
        <Teaches detail={detail} />
        <span class="spacer" />
        <div class="buttons">
          <Near word="Previous" address={groupAddress(previous)} />
          <Near word="Next" address={groupAddress(next)} />
        </div>
      </div>
      <details class="panel">
        <summary>
          <span class="muted">Scenario</span> <span class="scenario-title">{title}</span>
        </summary>
        <div class="scenario">
          <ModelText
            text={typeof scenario === 'string' ? scenario : JSON.stringify(scenario, null, 2)}
            limit={1200}
          />
        </div>
      </details>
      <Rewards detail={detail} cursor={cursor} />
      <Columns columns={rollouts.map((rollout) => toColumn(detail, rollout))} cursor={cursor} />
    </>
  );
}

/** Whether the group teaches something, and why not. */
function Teaches({ detail: { hasSignal, isSolved, dropped } }: { detail: GroupDetail }) {
  if (dropped !== null) return <Tag is="warn">Left out: {dropped}</Tag>;
  if (hasSignal) return <Tag is="good">Signal</Tag>;
  if (isSolved) return <Tag is="good">Every rollout solved it: nothing is left to learn</Tag>;
  return <Tag is="plain">No signal: rewards are equal</Tag>;
}

const toColumn = (
  detail: GroupDetail,
  { rollout, status, reward, failure, turns }: RolloutSummary,
): Column => ({
  key: rollout,
  title: `Rollout ${rollout}`,
  href: rolloutAddress(detail, rollout),
  reward,
  note: status === 'not_played' ? 'not played' : (failure ?? undefined),
  turns,
});

/** The rewards with their parts: is there a difference to learn from, and is the judge right? */
function Rewards({ detail, cursor }: { detail: GroupDetail; cursor: number }) {
  const { rollouts } = detail;
  const names = [...new Set(rollouts.flatMap(({ metrics }) => Object.keys(metrics)))].sort();
  const completed = rollouts.filter(({ status }) => status === 'completed');
  const isSame = (name: string) => new Set(completed.map(({ metrics }) => metrics[name])).size <= 1;
  const lookOf = Object.fromEntries(names.map((name) => [name, isSame(name) ? 'number same' : 'number']));
  const hasStops = rollouts.some(({ stopReason }) => stopReason !== null);
  return (
    <section class="panel" aria-label="Rewards">
      <div class="table-scroll">
        <table class="parts-table">
          <TableHead
            columns={[
              'Rollout',
              numbers('Reward'),
              numbers('Advantage'),
              ...names.map((name) => ({
                label: inWords(name),
                class: lookOf[name],
                title: isSame(name) ? 'The same for all' : undefined,
              })),
              numbers('Tokens'),
              numbers('Time'),
              hasStops && 'Stopped by',
            ]}
          />
          <tbody>
            {rollouts.map((one, at) => (
              <tr
                key={one.rollout}
                class={at === cursor ? 'cursor' : ''}
                aria-current={at === cursor ? 'true' : undefined}
              >
                <th scope="row">
                  <a href={rolloutAddress(detail, one.rollout)}>{one.rollout}</a>
                </th>
                <td class="number">
                  {one.status === 'completed' ? (
                    <b>{formatNumber(one.reward)}</b>
                  ) : one.status === 'not_played' ? (
                    <span class="muted">not played</span>
                  ) : (
                    <Tag is="bad">{one.failure}</Tag>
                  )}
                </td>
                <td class="number">{formatSigned(one.advantage)}</td>
                {names.map((name) => (
                  <td key={name} class={lookOf[name]}>
                    {formatNumber(one.metrics[name])}
                  </td>
                ))}
                <td class="number">{one.sampledTokens}</td>
                <td class="number">{formatSeconds(one.milliseconds / 1000)}</td>
                {hasStops && (
                  <td class="stopped">{one.stopReason === null ? '' : inWords(one.stopReason)}</td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
