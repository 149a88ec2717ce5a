import { printable } from '../contract/index.ts';
import { largestOf, smallestOf } from '../util/extremes.ts';
import { alignColumns } from '../util/text-table.ts';
import { type Comparison, describePair } from './compare-pair.ts';
import type { ComparisonRow, ComparisonTable, ScenarioRow } from './comparison-table.ts';
import type { Estimate } from './estimate.ts';

/** Scenarios that are listed, those first whose scores differ most. */
const maxListed = 20;

/** A comparison as text for people: of a table its rows, then the scenarios in which they differ. */
export const describeComparison = (comparison: Comparison | ComparisonTable): string =>
  'rows' in comparison ? describeTable(comparison) : describePair(comparison);

function describeTable({ environment, measure, rows, scenarios, warnings }: ComparisonTable): string {
  const [first] = rows;
  const head = [
    '',
    `${measure.toUpperCase()} [95%]`,
    `MINUS ${cut(first?.name ?? '', 16)}`,
    'P',
    'P (HOLM)',
    'BETTER',
    'WORSE',
    'SAME',
    'PROMPT/1000',
    'SAMPLED/1000',
    'COST/1000',
    'MEDIAN',
    'P90',
  ];
  const differing = scenarios.filter(({ scores }) => spreadOf(scores) > 0);
  return [
    `${measure} in ${printable(environment ?? 'an unknown environment')}, each row beside ${printable(first?.name ?? '')}`,
    '',
    ...alignColumns([head, ...rows.map(cellsOf)], { rightFrom: 1 }),
    '',
    'P: paired sign-flip test; HOLM: corrected for the number of rows. PROMPT, SAMPLED: tokens of 1,000 rollouts. MEDIAN, P90: of a rollout without its rewards.',
    ...warnings.map((warning) => `warning: ${printable(warning)}`),
    ...(differing.length === 0 ? [] : ['', ...scenarioLines(differing, rows)]),
    '',
  ].join('\n');
}

function cellsOf({ name, score, difference, tokensPer1000, costPer1000, latency }: ComparisonRow): string[] {
  return [
    cut(name, 32),
    withInterval(score),
    ...(difference
      ? [
          withInterval(difference.estimate),
          pText(difference.pValue),
          pText(difference.adjustedPValue),
          ...[difference.better.length, difference.worse.length, difference.same].map(String),
        ]
      : ['-', '-', '-', '-', '-', '-']),
    count(tokensPer1000?.promptTokens),
    count(tokensPer1000?.sampledTokens),
    costPer1000 === null ? 'unknown' : String(Number(costPer1000.toPrecision(4))),
    time(latency?.medianMs),
    time(latency?.p90Ms),
  ];
}

function scenarioLines(differing: readonly ScenarioRow[], rows: readonly ComparisonRow[]): string[] {
  const listed = [...differing].sort((a, b) => spreadOf(b.scores) - spreadOf(a.scores)).slice(0, maxListed);
  const left = differing.length - listed.length;
  return [
    ...alignColumns(
      [
        [`SCENARIOS THAT DIFFER: ${differing.length}`, ...rows.map(({ name }) => cut(name, 16))],
        ...listed.map(({ title, scores }) => [
          cut(title, 56),
          ...scores.map((score) => (score === null ? '-' : String(Number(score.toFixed(3))))),
        ]),
      ],
      { rightFrom: 1 },
    ),
    ...(left > 0 ? [`and ${left} more`] : []),
  ];
}

function spreadOf(scores: readonly (number | null)[]): number {
  const known = scores.filter((score) => score !== null);
  return known.length === 0 ? 0 : largestOf(known) - smallestOf(known);
}

function cut(text: string, most: number): string {
  const plain = printable(text);
  return plain.length > most ? `${plain.slice(0, most - 1)}…` : plain;
}

function withInterval(estimate: Estimate | null): string {
  if (!estimate) return 'unknown';
  const { mean, interval95 } = estimate;
  const ends = interval95 ? `${interval95.low.toFixed(3)}, ${interval95.high.toFixed(3)}` : 'no interval';
  return `${mean.toFixed(3)} [${ends}]`;
}

const pText = (p: number | null): string => (p === null ? 'unknown' : p.toPrecision(3));

const count = (value: number | undefined): string =>
  value === undefined ? 'unknown' : Math.round(value).toLocaleString('en');

const time = (milliseconds: number | undefined): string =>
  milliseconds === undefined
    ? 'unknown'
    : milliseconds < 1000
      ? `${Number(milliseconds.toPrecision(3))} ms`
      : `${Number((milliseconds / 1000).toPrecision(3))} s`;
