import { printable } from '../contract/index.ts';
import { describeFailureKinds, failureKinds } from '../rollout/index.ts';
import { checkArgument } from '../util/option-names.ts';
import { alignColumns } from '../util/text-table.ts';
import { type Estimate, type Interval, passAllOf, passAnyOf } from './estimate.ts';
import type { Evaluation } from './evaluate.ts';

/** One scenario of an evaluation, for programs. It has `pass@k` and `pass^k` for each requested k. */
export type EvaluationRow = Record<string, string | number | null>;

/** The scenarios of an evaluation as flat rows, in order. */
export function evaluationRows(evaluation: Evaluation): EvaluationRow[] {
  checkArgument('evaluation', evaluation, 'evaluation');
  const { perScenario, passAt } = evaluation;
  return perScenario.map((score) => ({
    key: score.key,
    reward: score.reward,
    success: score.success,
    successes: score.successes,
    judged: score.judged,
    completed: score.completed,
    rollouts: score.rollouts,
    ...Object.fromEntries(
      passAt.flatMap(({ k }) => [
        [`pass@${k}`, passAnyOf(k, score.judged, score.successes)],
        [`pass^${k}`, passAllOf(k, score.judged, score.successes)],
      ]),
    ),
  }));
}

/** CSV with a header line (RFC 4180). Null values are empty. */
export function evaluationCsv(evaluation: Evaluation): string {
  const rows = evaluationRows(evaluation);
  const names = Object.keys(rows[0] ?? { key: null });
  const lines = [names, ...rows.map((row) => names.map((name) => row[name] ?? null))];
  return lines.map((cells) => `${cells.map(toCsv).join(',')}\r\n`).join('');
}

/**
 * One JSON object per line: the `environment`, the `policy`, `successBy` and `prices` of the evaluation, the row, the
 * `scenario`, its `title`, `tokens` and `milliseconds`, and its `failures` in the form of the evaluation's `failures`.
 * `readEvaluation` reads it back.
 */
export function evaluationJsonLines(evaluation: Evaluation): string {
  const rows = evaluationRows(evaluation);
  const { environment, policy, successBy, prices } = evaluation;
  return evaluation.perScenario
    .map(({ scenario, title, tokens, milliseconds }, index) => {
      const group = evaluation.groups[index];
      return `${JSON.stringify({ environment, policy, successBy, prices, ...rows[index], scenario, title, tokens, milliseconds, failures: failureKinds(group ? [group] : []) })}\n`;
    })
    .join('');
}

/** An evaluation as text for people: the results, then a line for each scenario, lowest rewards first. */
export function evaluationTable(evaluation: Evaluation): string {
  const rows = evaluationRows(evaluation).map((row, index): EvaluationRow => {
    const { key, scenario } = evaluation.perScenario[index] as Evaluation['perScenario'][number];
    const text = typeof scenario === 'string' ? scenario : (JSON.stringify(scenario) ?? '');
    return { ...row, scenario: text === key ? null : printable(text.replaceAll(/\s+/g, ' ')) };
  });
  const { environment, policy, counts, failures, reward, success, passAt } = evaluation;
  const names = Object.keys(rows[0] ?? {}).filter((name) => rows.some((row) => row[name] !== null));
  const order = [...rows].sort((a, b) => Number(a.reward ?? -Infinity) - Number(b.reward ?? -Infinity));
  const cells = [names, ...order.map((row) => names.map((name) => toCell(row[name] ?? null)))];
  return [
    `${policy} in ${environment}`,
    `rollouts ${counts.dispatched}: ${counts.completed} completed, ${counts.failed} failed, ${counts.cancelled} cancelled`,
    ...describeFailureKinds(failures),
    `reward   ${describeEstimate(reward)}`,
    `success  ${describeEstimate(success)}`,
    ...passAt.flatMap(({ k, any, all }) => [
      `${`pass@${k}`.padEnd(8)} ${describeEstimate(any)}`,
      `${`pass^${k}`.padEnd(8)} ${describeEstimate(all)}`,
    ]),
    '',
    ...alignColumns(cells, { rightFrom: 1 }),
    '',
  ].join('\n');
}

/** `0.500 [0.150, 0.850] (95%, wilson, 4 scenarios)`. */
export function describeEstimate(
  estimate: Estimate | null,
  { interval, confidence }: { interval: Interval | null; confidence: number } = {
    interval: estimate?.interval95 ?? null,
    confidence: 0.95,
  },
): string {
  if (!estimate) return 'unknown';
  const { mean, count } = estimate;
  const scenarios = `${count} ${count === 1 ? 'scenario' : 'scenarios'}`;
  if (!interval) return `${mean.toFixed(3)} (${scenarios}: no interval)`;
  const { low, high, method } = interval;
  const percent = `${Number((confidence * 100).toPrecision(6))}%`;
  return `${mean.toFixed(3)} [${low.toFixed(3)}, ${high.toFixed(3)}] (${percent}, ${method}, ${scenarios})`;
}

function toCsv(value: string | number | null): string {
  const text = value === null ? '' : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Cuts long keys; `evaluationRows` has them in full. */
function toCell(value: string | number | null): string {
  if (value === null) return '-';
  if (typeof value === 'number') return Number.isInteger(value) ? String(value) : value.toFixed(3);
  return value.length > 48 ? `${value.slice(0, 47)}…` : value;
}
