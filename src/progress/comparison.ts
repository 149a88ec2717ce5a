import type { TrajectoryBody } from '../contract/index.ts';
import { shortPath } from '../environment/index.ts';
import { conversationLines, openingOf } from './conversation.ts';
import { count, decimal, orDash, percent } from './format.ts';
import type { EvaluationScore } from './run-event.ts';
import { type Cell, sideBySide, table } from './table.ts';
import { clip, type Line } from './text.ts';

/** A model on the validation scenarios. */
export interface Evaluated {
  policy: string;
  score: EvaluationScore;
  scenarios: number;
  /** Scenarios with a completed rollout, whose means the score is made of. */
  scored: number;
  /** Rollouts that did not complete. */
  failed: number;
  examples: TrajectoryBody[];
}

export interface NextCommand {
  what: string;
  command: string;
}

export interface Comparison {
  before: Evaluated;
  after: Evaluated;
  runDirectory: string;
  next: NextCommand[];
}

/** Below this, conversations stand under each other. */
const sideBySideFrom = 76;

/** The same scenario before and after where there is one: the pair that gained most. */
export function mostInstructivePair(
  before: readonly TrajectoryBody[],
  after: readonly TrajectoryBody[],
): { before: TrajectoryBody; after: TrajectoryBody } | undefined {
  const [firstBefore, firstAfter] = [before[0], after[0]];
  if (firstBefore === undefined || firstAfter === undefined) return undefined;
  const byOpening = new Map(after.map((trajectory) => [openingOf(trajectory), trajectory]));
  const pairs = before.flatMap((trajectory) => {
    const match = byOpening.get(openingOf(trajectory));
    return match === undefined ? [] : [{ before: trajectory, after: match }];
  });
  const gain = (pair: (typeof pairs)[number]) => pair.after.reward - pair.before.reward;
  return pairs.sort((a, b) => gain(b) - gain(a))[0] ?? { before: firstBefore, after: firstAfter };
}

/** The difference of two figures as they are shown, so that a reader who subtracts them agrees. */
function difference(before: number | null, after: number | null, format: (value: number) => string): Cell {
  if (before === null || after === null) return { text: '' };
  const unit = format(0).endsWith('%') ? 100 : 1;
  const shown = (value: number) => Number.parseFloat(format(value)) / unit;
  const change = shown(after) - shown(before);
  return {
    text: `${change < 0 ? '−' : '+'}${format(Math.abs(change))}`,
    style: change < 0 ? 'red' : 'green',
  };
}

const scoredOf = ({ scored, scenarios }: Evaluated): string =>
  scored === scenarios ? count(scenarios) : `${count(scored)} of ${count(scenarios)}`;

const plainRow = (name: string, before: Evaluated, after: Evaluated, text: (side: Evaluated) => string) =>
  [name, text(before), text(after)].map((cell): Cell => ({ text: cell }));

function scoreTable({ before, after }: Comparison, columns: number): Line[] {
  const row = (name: string, from: number | null, to: number | null, format: (value: number) => string) => [
    { text: name },
    { text: orDash(from, format) },
    { text: orDash(to, format), style: 'bold' as const },
    difference(from, to, format),
  ];
  const rows: Cell[][] = [row('reward', before.score.reward, after.score.reward, decimal)];
  if (before.score.success !== null || after.score.success !== null)
    rows.push(row('success', before.score.success, after.score.success, percent));
  if (before.failed + after.failed > 0) {
    rows.push(plainRow('scenarios', before, after, scoredOf));
    rows.push(plainRow('rollouts failed', before, after, ({ failed }) => count(failed)));
  }
  return table(
    [
      { title: 'validation, greedy' },
      { title: 'before', align: 'right' },
      { title: 'after', align: 'right' },
      { title: '', align: 'right' },
    ],
    rows,
    columns,
  );
}

function exampleLines({ before, after }: Comparison, columns: number): Line[] {
  const pair = mostInstructivePair(before.examples, after.examples);
  if (pair === undefined) return [];
  if (columns < sideBySideFrom)
    return [
      ...conversationLines('before', pair.before, columns),
      [],
      ...conversationLines('after', pair.after, columns),
      [],
    ];
  const half = Math.min(56, Math.floor((columns - 3) / 2));
  return [
    ...sideBySide(
      conversationLines('before', pair.before, half),
      conversationLines('after', pair.after, half),
      half,
    ),
    [],
  ];
}

/** The end of a run: what changed, by an example, and how to go on. Commands stand alone and are never cut. */
export function comparisonLines(comparison: Comparison, columns: number): Line[] {
  const pointers = [
    { what: 'The record of the run:', command: shortPath(comparison.runDirectory) },
    ...comparison.next,
  ];
  return [
    ...[...scoreTable(comparison, columns), [], ...exampleLines(comparison, columns)].map((line) =>
      clip(line, columns),
    ),
    ...pointers.flatMap(({ what, command }): Line[] => [
      [{ text: what, style: 'dim' }],
      [{ text: `  ${command}`, style: 'cyan' }],
    ]),
  ];
}
