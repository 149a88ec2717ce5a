import { printable, type TrajectoryBody } from '../contract/index.ts';
import { readableMessage } from '../trajectory/index.ts';
import { largestOf } from '../util/extremes.ts';
import { shortPath } from '../util/show-value.ts';
import { count, decimal, orDash, percent } from './format.ts';
import type { EvaluationScore } from './run-event.ts';
import {
  clip,
  displayWidth,
  type Line,
  lineWidth,
  pad,
  paint,
  type Segment,
  type Style,
  showsColors,
  truncate,
  wrap,
} from './text.ts';

/** A model on the validation scenarios. */
export interface EvaluatedModel {
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

export interface BeforeAfter {
  before: EvaluatedModel;
  after: EvaluatedModel;
  runDirectory: string;
  next: NextCommand[];
}

/** Minimum columns for two conversations side by side; in fewer, one is below the other. */
const minSideBySideColumns = 76;

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
function difference(before: number | null, after: number | null, format: (value: number) => string): Segment {
  if (before === null || after === null) return { text: '' };
  const unit = format(0).endsWith('%') ? 100 : 1;
  const shown = (value: number) => Number.parseFloat(format(value)) / unit;
  const change = shown(after) - shown(before);
  return {
    text: `${change < 0 ? '−' : '+'}${format(Math.abs(change))}`,
    style: change < 0 ? 'red' : 'green',
  };
}

const gap = '   ';

/** The scores as a table with a rule below its titles. */
function scoreTable({ before, after }: BeforeAfter): Line[] {
  const rows: Segment[][] = [
    ['validation, greedy', 'before', 'after', ''].map((text): Segment => ({ text, style: 'dim' })),
  ];
  const addScore = (name: 'reward' | 'success', format: (value: number) => string) => {
    const [from, to] = [before.score[name], after.score[name]];
    rows.push([
      { text: name },
      { text: orDash(from, format) },
      { text: orDash(to, format), style: 'bold' },
      difference(from, to, format),
    ]);
  };
  const addCount = (name: string, text: (side: EvaluatedModel) => string) =>
    rows.push([name, text(before), text(after)].map((cell): Segment => ({ text: cell })));
  addScore('reward', decimal);
  if (before.score.success !== null || after.score.success !== null) addScore('success', percent);
  if (before.failed + after.failed > 0) {
    addCount('scenarios', ({ scored, scenarios }) =>
      scored === scenarios ? count(scenarios) : `${count(scored)} of ${count(scenarios)}`,
    );
    addCount('rollouts failed', ({ failed }) => count(failed));
  }
  const widths = [0, 1, 2, 3].map((column) =>
    largestOf(rows.map((cells) => cells[column]?.text.length ?? 0)),
  );
  const [titles = [], ...lines] = rows.map((cells) =>
    widths.flatMap((width, column): Line => {
      const { text, style } = cells[column] ?? { text: '' };
      const padded = column === 0 ? pad(text, width) : gap + pad(text, width, 'right');
      return [{ text: padded, ...(style && { style }) }];
    }),
  );
  return [titles, [{ text: '─'.repeat(lineWidth(titles)), style: 'dim' }], ...lines];
}

function exampleLines({ before, after }: BeforeAfter, columns: number): Line[] {
  const pair = mostInstructivePair(before.examples, after.examples);
  if (pair === undefined) return [];
  if (columns < minSideBySideColumns)
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
export function comparisonLines(comparison: BeforeAfter, columns: number): Line[] {
  const pointers = [
    { what: 'The record of the run:', command: shortPath(comparison.runDirectory) },
    ...comparison.next,
  ];
  return [
    ...[...scoreTable(comparison), [], ...exampleLines(comparison, columns)].map((line) =>
      clip(line, columns),
    ),
    ...pointers.flatMap(({ what, command }): Line[] => [
      [{ text: what, style: 'dim' }],
      [{ text: `  ${command}`, style: 'cyan' }],
    ]),
  ];
}

/** Writes a comparison to standard output, in color if that supports it. */
export function printBeforeAfter(comparison: BeforeAfter): void {
  const { stdout } = process;
  const colors = showsColors(stdout);
  const lines = [[], ...comparisonLines(comparison, stdout.columns || 100)];
  stdout.write(lines.map((line) => `${paint(line, colors)}\n`).join(''));
}

/** One shown entry of a conversation: a message, a thought or a tool call. */
interface Entry {
  role: 'system' | 'user' | 'thinks' | 'agent' | 'tool';
  text: string;
}

const roleStyles: Record<Entry['role'], Style> = {
  system: 'dim',
  user: 'cyan',
  thinks: 'dim',
  agent: 'magenta',
  tool: 'yellow',
};

function entriesOfReply({ text, reasoning, toolCalls }: ReturnType<typeof readableMessage>): Entry[] {
  const calls = toolCalls.map(({ function: { name, arguments: input } }) => `${name} ${input}`);
  const texts = text === '' ? calls : [text, ...calls];
  const replies = (texts.length === 0 ? ['(nothing)'] : texts).map(
    (shown): Entry => ({ role: 'agent', text: shown }),
  );
  return reasoning ? [{ role: 'thinks', text: reasoning }, ...replies] : replies;
}

/** The entries of a trajectory's main conversation. */
const entriesOf = ({ messages_and_choices }: TrajectoryBody): Entry[] =>
  messages_and_choices.map(readableMessage).flatMap((message): Entry[] => {
    const { role, text } = message;
    if (role === 'assistant') return entriesOfReply(message);
    if (role === 'user') return [{ role, text }];
    if (role === 'tool' || role === 'function') return [{ role: 'tool', text }];
    const isKnown = role === 'system' || role === 'developer';
    return [{ role: 'system', text: isKnown ? text : `${role}: ${text}` }];
  });

/** The system and user messages of a trajectory. They identify its scenario. */
const openingOf = (trajectory: TrajectoryBody): string =>
  entriesOf(trajectory)
    .filter(({ role }) => role === 'system' || role === 'user')
    .map(({ text }) => text)
    .join('\n');

/** Most lines of a conversation; of a longer one its begin and its end. */
const maxLines = 24;

const leftOut = (all: readonly Line[]): Line => [
  { text: `… ${all.length - maxLines + 1} more lines`, style: 'dim' },
];

/** A conversation below a title with its reward, wrapped to a width. */
export function conversationLines(title: string, trajectory: TrajectoryBody, width: number): Line[] {
  const indent = 7;
  const reward = `reward ${decimal(trajectory.reward, 2)}`;
  const space = Math.max(1, width - displayWidth(title) - displayWidth(reward));
  const textWidth = Math.max(8, width - indent);
  // The instructions are the same in every conversation: one line is enough.
  const partsOf = ({ role, text }: Entry) =>
    role === 'system' ? [truncate(printable(text), textWidth)] : wrap(printable(text), textWidth);
  const all = entriesOf(trajectory).flatMap((entry) =>
    partsOf(entry).map(
      (part, index): Line => [
        { text: pad(index === 0 ? entry.role : '', indent), style: roleStyles[entry.role] },
        { text: part },
      ],
    ),
  );
  const entries =
    all.length <= maxLines ? all : [...all.slice(0, maxLines - 8), leftOut(all), ...all.slice(-7)];
  return [
    [
      { text: title, style: 'bold' },
      { text: ' '.repeat(space) },
      { text: reward, style: trajectory.reward >= 1 ? 'green' : 'yellow' },
    ],
    ...entries,
  ];
}

/** Two blocks of lines side by side, with a rule between them. */
function sideBySide(left: readonly Line[], right: readonly Line[], leftWidth: number): Line[] {
  return Array.from({ length: Math.max(left.length, right.length) }, (_, index) => {
    const line = clip(left[index] ?? [], leftWidth);
    const space = ' '.repeat(Math.max(0, leftWidth - lineWidth(line)));
    return [...line, { text: space }, { text: ' │ ', style: 'dim' }, ...(right[index] ?? [])];
  });
}
