import type { ComparisonRow, ComparisonTable } from '../../../evaluation/comparison-table.ts';
import { largestOf, smallestOf } from '../../../util/extremes.ts';
import type { KeptEvaluation } from '../../api.ts';
import { formatCost, formatCount, formatNumber, formatSeconds, formatSigned } from '../parts/format.ts';
import { numbers, TableHead } from '../parts/table-head.tsx';
import { addressOf } from '../router.ts';

interface RowsProps {
  table: ComparisonTable;
  evaluations: readonly KeptEvaluation[];
  /** Makes a row the baseline; null where the table cannot change. */
  onFirst: ((id: string) => void) | null;
}

/** A row for each evaluation, with its interval on one scale for all. */
export function ComparisonRows({ table, evaluations, onFirst }: RowsProps) {
  const { measure, rows, warnings } = table;
  const first = rows[0]?.name ?? '';
  const scale = scaleOf(table);
  return (
    <section class="panel" aria-label="Evaluations side by side">
      <div class="table-scroll">
        <table class="comparison">
          <TableHead
            columns={[
              'Evaluation',
              numbers(measure === 'success' ? 'Success' : 'Reward'),
              '95 % interval',
              numbers('Minus the first'),
              numbers('p (Holm)', 'Paired sign-flip test, corrected for the number of rows by Holm'),
              numbers('Better, worse, same'),
              numbers('Tokens per 1,000'),
              numbers('Cost per 1,000'),
              numbers('Median, p90'),
            ]}
          />
          <tbody>
            {rows.map((row) => (
              <tr key={row.name} aria-current={row.difference ? undefined : 'true'}>
                <th scope="row">
                  <Name row={row} kept={evaluations.find(({ id }) => id === row.name)} />
                  {row.difference === null ? (
                    <small class="muted">baseline</small>
                  ) : (
                    onFirst && (
                      <button type="button" class="link-button" onClick={() => onFirst(row.name)}>
                        Compare with this one
                      </button>
                    )
                  )}
                </th>
                <td class="number">
                  <b>{row.score ? formatNumber(row.score.mean) : 'unknown'}</b>
                  <small class="muted">
                    {row.score && row.score.count < row.scenarios
                      ? `${row.score.count} of ${row.scenarios} scenarios`
                      : `${row.scenarios} scenarios`}
                  </small>
                </td>
                <td>
                  <IntervalBar row={row} scale={scale} />
                </td>
                <Difference row={row} />
                <td class="number">
                  {row.tokensPer1000 ? (
                    <>
                      {formatCount(row.tokensPer1000.promptTokens)} prompt
                      <small class="muted">{formatCount(row.tokensPer1000.sampledTokens)} sampled</small>
                    </>
                  ) : (
                    <Unknown />
                  )}
                </td>
                <td class="number">{row.costPer1000 === null ? <Unknown /> : formatCost(row.costPer1000)}</td>
                <td class="number">
                  {row.latency ? (
                    <>
                      {formatTime(row.latency.medianMs)}
                      <small class="muted">{formatTime(row.latency.p90Ms)}</small>
                    </>
                  ) : (
                    <Unknown />
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <ul class="compare-notes muted">
        {warnings.map((warning) => (
          <li key={warning} class="warning">
            {warning}
          </li>
        ))}
        <li>
          Differences are over the scenarios that a row shares with {first}; p is of the paired sign-flip
          test, corrected for the number of rows. Tokens and cost are for 1,000 completed rollouts; times are
          for one rollout, without its rewards.
        </li>
      </ul>
    </section>
  );
}

const formatTime = (milliseconds: number): string =>
  milliseconds < 1000 ? `${Number(milliseconds.toPrecision(3))} ms` : formatSeconds(milliseconds / 1000);

const Unknown = () => <span class="muted">unknown</span>;

function Name({ row: { name, policy }, kept }: { row: ComparisonRow; kept: KeptEvaluation | undefined }) {
  const isOfRun = kept?.run && kept.which;
  return (
    <>
      {isOfRun ? (
        <a href={addressOf(['runs', kept.run ?? '', 'steps', kept.which ?? ''])}>{name}</a>
      ) : (
        <span>{name}</span>
      )}
      <small class="muted mono">{policy}</small>
    </>
  );
}

function Difference({ row: { difference } }: { row: ComparisonRow }) {
  if (!difference)
    return (
      <>
        <td class="number muted">–</td>
        <td class="number muted">–</td>
        <td class="number muted">–</td>
      </>
    );
  const { estimate, adjustedPValue, pValue, better, worse, same } = difference;
  const interval = estimate?.interval95;
  const tone =
    estimate === null || adjustedPValue === null || adjustedPValue > 0.05
      ? 'even'
      : estimate.mean > 0
        ? 'better'
        : 'worse';
  return (
    <>
      <td class="number" data-tone={tone}>
        {estimate ? <b>{formatSigned(estimate.mean)}</b> : <Unknown />}
        {interval && (
          <small class="muted">
            {formatSigned(interval.low)} to {formatSigned(interval.high)}
          </small>
        )}
      </td>
      <td class="number">
        {adjustedPValue === null ? <Unknown /> : formatP(adjustedPValue)}
        {pValue !== null && <small class="muted">alone {formatP(pValue)}</small>}
      </td>
      <td class="number">
        {better.length}, {worse.length}, {same}
      </td>
    </>
  );
}

const formatP = (p: number): string => (p < 0.001 ? '< 0.001' : formatNumber(Number(p.toPrecision(2))));

interface Scale {
  low: number;
  high: number;
}

/** Success from 0 to 1; rewards from the lowest to the highest end of an interval. */
function scaleOf({ measure, rows }: ComparisonTable): Scale {
  if (measure === 'success') return { low: 0, high: 1 };
  const ends = rows.flatMap(({ score }) =>
    score ? [score.mean, score.interval95?.low ?? score.mean, score.interval95?.high ?? score.mean] : [],
  );
  const [low, high] = [smallestOf(ends, 0), largestOf(ends, 0)];
  return { low, high: high > low ? high : low + 1 };
}

function IntervalBar({
  row: { score, difference },
  scale: { low, high },
}: {
  row: ComparisonRow;
  scale: Scale;
}) {
  if (!score) return <Unknown />;
  const { mean, interval95 } = score;
  const x = (value: number) => `${(2 + ((value - low) / (high - low)) * 96).toFixed(2)}%`;
  const ends = interval95
    ? `${formatNumber(interval95.low)} to ${formatNumber(interval95.high)}`
    : 'too few scenarios for an interval';
  return (
    <>
      <svg
        class="interval-bar"
        data-first={difference ? undefined : ''}
        role="img"
        aria-label={`${formatNumber(mean)}, ${ends}`}
      >
        <line class="axis" x1="0" x2="100%" y1="10" y2="10" />
        {interval95 && (
          <line class="whisker" x1={x(interval95.low)} x2={x(interval95.high)} y1="10" y2="10" />
        )}
        <circle cx={x(mean)} cy="10" r="4.5" />
      </svg>
      <small class="muted">{ends}</small>
    </>
  );
}
