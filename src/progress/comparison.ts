import { type Message, printable, type TrajectoryBody } from '../contract/index.ts';
import { shortPath } from '../util/complaint.ts';
import { count, decimal, orDash, percent } from './format.ts';
import type { EvaluationScore } from './run-event.ts';
import { clip, displayWidth, type Line, pad, plainText, type Segment, type Style, wrap } from './text.ts';

/** A model on the validation scenarios. */
export interface Evaluated {
  policy: string;
  score: EvaluationScore;
  scenarios: number;
  /** Scenarios with a completed rollout. Only these are in the score. */
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

/** Least columns for two conversations side by side; in fewer, one is below the other. */
const sideBySideFrom = 76;

/** The pair of trajectories of one scenario whose reward rose most; without such a pair, the first of each side. */
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

/** The difference of the two rounded numbers, so that it matches what is shown. */
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

/** The end of a run: scores, an example, and next commands. Each command has its own line, which is never cut. */
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

type Entry = TrajectoryBody['messages_and_choices'][number];
type Content = NonNullable<Extract<Message, { role: 'assistant' }>['content']>;

/** One shown entry of a conversation: a message, a thought or a tool call. */
export interface Turn {
  speaker: 'system' | 'user' | 'thinks' | 'agent' | 'tool';
  text: string;
}

const speakerStyles: Record<Turn['speaker'], Style> = {
  system: 'dim',
  user: 'cyan',
  thinks: 'dim',
  agent: 'magenta',
  tool: 'yellow',
};

function contentText(content: Content | null | undefined): string {
  if (content === null || content === undefined) return '';
  return typeof content === 'string'
    ? content
    : content.map((part) => ('text' in part ? part.text : part.refusal)).join('');
}

interface Reply {
  content?: Content | null | undefined;
  reasoning_content?: string | null | undefined;
  tool_calls?: { function: { name: string; arguments: string } }[] | null | undefined;
}

function replyTurns({ content, reasoning_content: reasoning, tool_calls }: Reply): Turn[] {
  const said = contentText(content);
  const calls = (tool_calls ?? []).map(({ function: { name, arguments: input } }) => `${name} ${input}`);
  const texts = said === '' ? calls : [said, ...calls];
  const replies = (texts.length === 0 ? ['(nothing)'] : texts).map(
    (text): Turn => ({ speaker: 'agent', text }),
  );
  return reasoning ? [{ speaker: 'thinks', text: reasoning }, ...replies] : replies;
}

function entryTurns(entry: Entry): Turn[] {
  if ('message' in entry) return replyTurns(entry.message);
  switch (entry.role) {
    case 'assistant':
      return replyTurns(entry);
    case 'user':
      return [{ speaker: 'user', text: contentText(entry.content) }];
    case 'tool':
    case 'function':
      return [{ speaker: 'tool', text: contentText(entry.content) }];
    case 'system':
    case 'developer':
      return [{ speaker: 'system', text: contentText(entry.content) }];
    default:
      return [{ speaker: 'system', text: `${entry.role}: ${contentText(entry.content)}` }];
  }
}

/** The entries of a trajectory's main conversation. */
export const turnsOf = (trajectory: TrajectoryBody): Turn[] =>
  trajectory.messages_and_choices.flatMap(entryTurns);

/** The system and user messages of a trajectory. They identify its scenario. */
export const openingOf = (trajectory: TrajectoryBody): string =>
  turnsOf(trajectory)
    .filter((turn) => turn.speaker === 'system' || turn.speaker === 'user')
    .map((turn) => turn.text)
    .join('\n');

/** A conversation below a title with its reward, wrapped to a width. */
export function conversationLines(title: string, trajectory: TrajectoryBody, width: number): Line[] {
  const indent = 7;
  const reward = `reward ${decimal(trajectory.reward, 2)}`;
  const space = Math.max(1, width - displayWidth(title) - displayWidth(reward));
  const turns = turnsOf(trajectory).flatMap(({ speaker, text }) =>
    wrap(printable(text), Math.max(8, width - indent)).map(
      (part, index): Line => [
        { text: pad(index === 0 ? speaker : '', indent), style: speakerStyles[speaker] },
        { text: part },
      ],
    ),
  );
  return [
    [
      { text: title, style: 'bold' },
      { text: ' '.repeat(space) },
      { text: reward, style: trajectory.reward >= 1 ? 'green' : 'yellow' },
    ],
    ...turns,
  ];
}

export interface Column {
  title: string;
  /** Default left. */
  align?: 'left' | 'right';
}

export interface Cell {
  text: string;
  style?: Style;
}

const gap = '   ';

/** Narrows the widest columns until the table fits. */
function columnWidths(wanted: number[], space: number): number[] {
  const widths = [...wanted];
  const total = () => widths.reduce((sum, width) => sum + width, 0);
  while (total() > space && Math.max(...widths) > 1) {
    const widest = widths.indexOf(Math.max(...widths));
    widths[widest] = (widths[widest] ?? 1) - 1;
  }
  return widths;
}

/**
 * A table with a rule below its titles, at most `width` cells wide. Long texts end in an ellipsis; missing cells of a
 * row are empty.
 */
export function table(columns: readonly Column[], rows: readonly (readonly Cell[])[], width: number): Line[] {
  const wanted = columns.map((column, index) =>
    Math.max(displayWidth(column.title), ...rows.map((row) => displayWidth(row[index]?.text ?? ''))),
  );
  const widths = columnWidths(wanted, width - gap.length * (columns.length - 1));

  const drawRow = (cells: readonly Cell[]): Line =>
    columns.flatMap((column, index): Line => {
      const cell = cells[index] ?? { text: '' };
      const size = widths[index] ?? 0;
      const text = pad(plainText(clip([cell], size)), size, column.align);
      const segment: Segment = { ...cell, text };
      return index === 0 ? [segment] : [{ text: gap }, segment];
    });

  return [
    drawRow(columns.map((column): Cell => ({ text: column.title, style: 'dim' }))),
    [{ text: widths.map((size) => '─'.repeat(size)).join('─'.repeat(gap.length)), style: 'dim' }],
    ...rows.map(drawRow),
  ];
}

/** Two blocks of lines side by side, with a rule between them. */
export function sideBySide(left: readonly Line[], right: readonly Line[], leftWidth: number): Line[] {
  return Array.from({ length: Math.max(left.length, right.length) }, (_, index) => {
    const line = clip(left[index] ?? [], leftWidth);
    const space = ' '.repeat(Math.max(0, leftWidth - displayWidth(plainText(line))));
    return [...line, { text: space }, { text: ' │ ', style: 'dim' }, ...(right[index] ?? [])];
  });
}
