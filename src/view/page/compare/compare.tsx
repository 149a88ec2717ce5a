import type { EvaluationComparison, EvaluationsList, KeptEvaluation } from '../../api.ts';
import { useApi } from '../api-client.ts';
import { isExport } from '../export-answers.ts';
import { counted } from '../parts/format.ts';
import { Data, Nothing } from '../parts/states.tsx';
import { stepTitle } from '../parts/titles.ts';
import { type PanelProps, setQuery } from '../router.ts';
import { ComparisonRows } from './rows.tsx';
import { ScenarioScores } from './scenarios.tsx';
import './compare.css';

/** Evaluations of one environment in one table: which is better, what it costs, how long it takes, where they differ. */
export function Compare({ query }: PanelProps) {
  const list = useApi<EvaluationsList>('evaluations');
  return <Data of={list}>{(data) => <ComparePanel list={data} query={query} />}</Data>;
}

type Environment = EvaluationsList['environments'][number];

function ComparePanel({
  list: { environments },
  query,
}: {
  list: EvaluationsList;
  query: PanelProps['query'];
}) {
  const shown = environments.find(({ environment }) => environment === query.environment) ?? environments[0];
  if (!shown)
    return (
      <Nothing title="No evaluations yet">
        <p>
          They come from runs with <code>validation</code>, from <code>evaluate</code> with a{' '}
          <code>directory</code>, and from <code>martingale eval --out</code>, in the folders of this page.
        </p>
      </Nothing>
    );
  const known = new Set(shown.evaluations.map(({ id }) => id));
  const asked = (query.of?.split(',') ?? []).filter((id) => known.has(id));
  const chosen = query.of === undefined ? shown.chosen : asked;
  return (
    <>
      <div class="heading">
        <h1>Compare</h1>
        <span class="muted">
          {counted(shown.evaluations.length, 'evaluation')} in {shown.environment}
        </span>
        <span class="spacer" />
        {environments.length > 1 && (
          <label class="compare-environment">
            <span class="muted">Environment</span>
            <select
              class="field"
              value={shown.environment}
              onChange={({ currentTarget }) =>
                setQuery({ environment: currentTarget.value, of: null, show: null })
              }
            >
              {environments.map(({ environment }) => (
                <option key={environment}>{environment}</option>
              ))}
            </select>
          </label>
        )}
      </div>
      {chosen.length < 2 ? (
        <div class="panel">
          <Nothing title="Choose two evaluations or more" />
        </div>
      ) : (
        <Comparison chosen={chosen} evaluations={shown.evaluations} query={query} />
      )}
      {!isExport && <Choice shown={shown} chosen={chosen} />}
    </>
  );
}

interface ComparisonProps {
  chosen: readonly string[];
  evaluations: readonly KeptEvaluation[];
  query: PanelProps['query'];
}

function Comparison({ chosen, evaluations, query }: ComparisonProps) {
  const loaded = useApi<EvaluationComparison>(`comparisons/${encodeURIComponent(chosen.join(','))}`);
  return (
    <Data of={loaded}>
      {({ table, problems }) => (
        <>
          {problems.map((problem) => (
            <p key={problem} class="tag warn" role="alert">
              {problem}
            </p>
          ))}
          {table === null ? (
            <div class="panel">
              <Nothing title="Fewer than two of them can be read" />
            </div>
          ) : (
            <>
              <ComparisonRows
                table={table}
                evaluations={evaluations}
                onFirst={isExport ? null : (id) => choose([id, ...chosen.filter((other) => other !== id)])}
              />
              <ScenarioScores table={table} showsAll={query.show === 'all'} />
            </>
          )}
        </>
      )}
    </Data>
  );
}

const choose = (ids: readonly string[]) => setQuery({ of: ids.length === 0 ? '-' : ids.join(',') });

/** The evaluations that can be chosen. */
function Choice({ shown, chosen }: { shown: Environment; chosen: readonly string[] }) {
  return (
    <fieldset class="panel compare-choice">
      <legend class="hidden-text">Evaluations to compare</legend>
      {shown.evaluations.map(({ id, policy, run, which }) => (
        <label key={id}>
          <input
            type="checkbox"
            checked={chosen.includes(id)}
            onChange={() =>
              choose(chosen.includes(id) ? chosen.filter((other) => other !== id) : [...chosen, id])
            }
          />
          <span>{run === null || which === null ? id : `${run}, ${stepTitle(which).toLowerCase()}`}</span>
          <span class="muted mono">{policy}</span>
        </label>
      ))}
    </fieldset>
  );
}
