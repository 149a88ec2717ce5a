import { useMemo } from 'preact/hooks';
import type { ComparisonTable, ScenarioRow } from '../../../evaluation/comparison-table.ts';
import { largestOf, smallestOf } from '../../../util/extremes.ts';
import { counted, formatNumber } from '../parts/format.ts';
import { Nothing } from '../parts/states.tsx';
import { numbers, TableHead } from '../parts/table-head.tsx';
import { setQuery } from '../router.ts';

/** Most scenarios in the table. */
const maxShown = 500;

/** The scores of each scenario in every row. Shows the scenarios in which rows differ, or all of them. */
export function ScenarioScores({ table, showsAll }: { table: ComparisonTable; showsAll: boolean }) {
  const { rows, scenarios } = table;
  const sorted = useMemo(() => [...scenarios].sort((a, b) => spreadOf(b) - spreadOf(a)), [scenarios]);
  const differing = sorted.filter((row) => spreadOf(row) > 0);
  const shown = showsAll ? sorted : differing;
  return (
    <section class="panel" aria-label="By scenario">
      <div class="panel-head">
        <h2>
          {differing.length} of {counted(scenarios.length, 'scenario')} differ
        </h2>
        <button
          type="button"
          class="button"
          aria-pressed={showsAll}
          onClick={() => setQuery({ show: showsAll ? null : 'all' })}
        >
          All scenarios
        </button>
      </div>
      {shown.length === 0 ? (
        <Nothing title="Every scenario has the same score in all of them" />
      ) : (
        <div class="table-scroll scenario-scores">
          <table>
            <TableHead columns={['Scenario', ...rows.map(({ name }) => numbers(name))]} />
            <tbody>
              {shown.slice(0, maxShown).map(({ key, title, scores }) => (
                <tr key={key}>
                  <th scope="row" title={key}>
                    {title}
                  </th>
                  {scores.map((score, at) => (
                    <td
                      key={rows[at]?.name}
                      class="number"
                      data-tone={toneOf(score, at === 0 ? null : scores[0])}
                    >
                      {score === null ? <span class="muted">no score</span> : formatNumber(score)}
                      {markOf(score, at === 0 ? null : scores[0])}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {shown.length > maxShown && <p class="muted compare-notes">and {shown.length - maxShown} more</p>}
    </section>
  );
}

const toneOf = (score: number | null, first: number | null | undefined) =>
  score === null || first === null || first === undefined || score === first
    ? 'even'
    : score > first
      ? 'better'
      : 'worse';

/** A sign beside the colour. */
function markOf(score: number | null, first: number | null | undefined) {
  const tone = toneOf(score, first);
  if (tone === 'even') return null;
  return <span class="mark">{tone === 'better' ? ' ↑' : ' ↓'}</span>;
}

function spreadOf({ scores }: ScenarioRow): number {
  const known = scores.filter((score) => score !== null);
  return known.length === 0 ? 0 : largestOf(known) - smallestOf(known);
}
