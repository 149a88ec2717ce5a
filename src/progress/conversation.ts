import { type Message, printable, type TrajectoryBody } from '../contract/index.ts';
import { decimal } from './format.ts';
import { displayWidth, type Line, pad, type Style, wrap } from './text.ts';

type Entry = TrajectoryBody['messages_and_choices'][number];
type Content = NonNullable<Extract<Message, { role: 'assistant' }>['content']>;

/** One thing somebody said or did in a conversation. */
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

/** What was said in a trajectory's main conversation. */
export const turnsOf = (trajectory: TrajectoryBody): Turn[] =>
  trajectory.messages_and_choices.flatMap(entryTurns);

/** What the trajectory began with: trajectories of the same scenario have it in common. */
export const openingOf = (trajectory: TrajectoryBody): string =>
  turnsOf(trajectory)
    .filter((turn) => turn.speaker === 'system' || turn.speaker === 'user')
    .map((turn) => turn.text)
    .join('\n');

/** A conversation under a title with its reward, wrapped to a width. */
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
