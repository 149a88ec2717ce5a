import { useMemo, useState } from 'preact/hooks';
import type { RunRow, RunsList } from '../../api.ts';
import { useApi } from '../api-client.ts';
import { counted, formatAge, formatCost, formatNumber } from '../parts/format.ts';
import { useKeys } from '../parts/keys.ts';
import { Sparkline } from '../parts/sparkline.tsx';
import { Data, Nothing } from '../parts/states.tsx';
import { StatusTag } from '../parts/status.tsx';
import { numbers, TableHead } from '../parts/table-head.tsx';
import { subtitleOf } from '../parts/titles.ts';
import { addressOf, goTo, type PanelProps, setQuery } from '../router.ts';
import { Overlay } from './overlay.tsx';
import './runs.css';

/** At most this many runs lie over each other: more cannot be told apart. */
const maxChosen = 4;

/** All runs of the folders, newest first; two to four of them can be chosen and compared. */
export function Runs({ query }: PanelProps) {
  const list = useApi<RunsList>('runs');
  return <Data of={list}>{(data) => <RunTable list={data} query={query} />}</Data>;
}

function RunTable({
  list: { folders, runs, service },
  query,
}: {
  list: RunsList;
  query: PanelProps['query'];
}) {
  const [cursor, setCursor] = useState(0);
  const filter = query.filter ?? '';
  const shown = useMemo(() => runs.filter((run) => fits(run, filter)), [runs, filter]);
  const chosen = (query.runs?.split(',') ?? []).filter((id) => runs.some((run) => run.id === id));
  const toggle = (id: string) => {
    const next = chosen.includes(id) ? chosen.filter((other) => other !== id) : [...chosen, id];
    if (next.length <= maxChosen) setQuery({ runs: next.join(',') });
  };
  const at = shown[Math.min(cursor, shown.length - 1)];
  useKeys([
    { key: 'j', does: 'Next run', run: () => setCursor(Math.min(cursor + 1, shown.length - 1)) },
    { key: 'k', does: 'Previous run', run: () => setCursor(Math.max(cursor - 1, 0)) },
    { key: 'Enter', does: 'Open the run', run: () => at && goTo(addressOf(['runs', at.id])) },
    { key: 'x', does: 'Choose the run to compare', run: () => at && toggle(at.id) },
  ]);
  if (runs.length === 0)
    return (
      <Nothing title="No runs yet">
        <p>
          They show here as soon as a training run begins in {folders.map((folder) => folder).join(', ')}.
        </p>
      </Nothing>
    );
  return (
    <>
      <div class="heading">
        <h1>Runs</h1>
        <span class="muted">{counted(runs.length, 'run')}</span>
        <span class="spacer" />
        <a class="button" href={addressOf(['compare'])}>
          Compare evaluations
        </a>
        {service && (
          <a class="button" href={addressOf(['service'])}>
            Service
          </a>
        )}
        <input
          class="field"
          type="search"
          placeholder="Filter"
          aria-label="Filter runs by name, model or environment"
          data-filter
          value={filter}
          onInput={({ currentTarget }) => setQuery({ filter: currentTarget.value }, { replace: true })}
          onKeyDown={(event) => event.key === 'Escape' && event.currentTarget.blur()}
        />
      </div>
      {chosen.length >= 2 && <Overlay ids={chosen} />}
      <div class="panel">
        <table class="runs">
          <TableHead
            columns={[
              { label: <span class="hidden-text">Compare</span> },
              'Run',
              'Status',
              'Reward',
              numbers('Step'),
              numbers('Cost'),
              numbers('Changed'),
            ]}
          />
          <tbody>
            {shown.map((run, index) => (
              <Row
                key={run.id}
                run={run}
                hasCursor={index === cursor}
                isChosen={chosen.includes(run.id)}
                isFull={chosen.length >= maxChosen}
                onToggle={() => toggle(run.id)}
              />
            ))}
          </tbody>
        </table>
        {shown.length === 0 && (
          <Nothing title="No run fits the filter">
            <button type="button" class="button" onClick={() => setQuery({ filter: null })}>
              Show all
            </button>
          </Nothing>
        )}
      </div>
      {chosen.length === 1 && (
        <p class="muted" role="status">
          Choose one to three more runs to lay them over each other.
        </p>
      )}
    </>
  );
}

const fits = ({ name, model, environment, status }: RunRow, filter: string): boolean =>
  `${name} ${model} ${environment} ${status}`.toLowerCase().includes(filter.toLowerCase());

interface RowProps {
  run: RunRow;
  hasCursor: boolean;
  isChosen: boolean;
  isFull: boolean;
  onToggle: () => void;
}

function Row({ run, hasCursor, isChosen, isFull, onToggle }: RowProps) {
  return (
    <tr class={hasCursor ? 'cursor' : ''} aria-current={hasCursor ? 'true' : undefined}>
      <td class="choose">
        <input
          type="checkbox"
          checked={isChosen}
          disabled={isFull && !isChosen}
          aria-label={`Compare ${run.name}`}
          onChange={onToggle}
        />
      </td>
      <th scope="row" class="name">
        <a href={addressOf(['runs', run.id])}>{run.title}</a>
        <small class="muted">{subtitleOf(run).join(' · ')}</small>
        {run.problem && <small class="tag bad">{run.problem}</small>}
      </th>
      <td class="status">
        <StatusTag run={run} />
      </td>
      <td class="reward">
        <Sparkline values={run.rewards} label={`Reward over ${counted(run.step, 'step')}`} />
        <b>{formatNumber(run.reward)}</b>
      </td>
      <td class="number step">
        {run.step}
        <span class="muted"> / {run.steps}</span>
        <progress max={run.steps} value={run.step} aria-label={`Step ${run.step} of ${run.steps}`} />
      </td>
      <td class="number cost">{formatCost(run.cost)}</td>
      <td class="number age muted">
        <time dateTime={run.changed} title={new Date(run.changed).toLocaleString()}>
          {formatAge(run.changed)}
        </time>
      </td>
    </tr>
  );
}
