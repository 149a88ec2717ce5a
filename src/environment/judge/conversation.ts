import type { Choice, Message, Tool } from '../../contract/index.ts';
import type { Trajectory } from '../../trajectory/index.ts';

/** A trajectory as a judge reads it: one line of escaped JSON per entry. */
interface ReadableConversation {
  main: string[];
  /** Conversations that do not continue the main one: of sub-agents, parallel calls or compacted histories. */
  additional: string[][];
}

/**
 * The messages of a trajectory, without tokens. Tool calls get new ids (`call_1`, `call_2`), so that conversations with
 * the same messages are equal.
 */
export function readConversation({ histories }: Trajectory): ReadableConversation {
  const [main = [], ...additional] = histories.map(({ entries, tools }) => {
    const ids = new Map<string, string>();
    const lines = entries.map((entry) => toLine(plainEntry(entry, ids)));
    return tools?.length ? [toLine({ tools: tools.map(toolOf) }), ...lines] : lines;
  });
  return { main, additional };
}

/** Number of first lines that all conversations share. */
function sharedLines(conversations: readonly (readonly string[])[]): number {
  const [first = [], ...others] = conversations;
  let shared = 0;
  while (shared < first.length && others.every((lines) => lines[shared] === first[shared])) shared++;
  return shared;
}

function plainEntry(entry: Message | Choice, ids: Map<string, string>): object {
  const message = 'message' in entry ? entry.message : entry;
  const { role, content } = message;
  if (message.role === 'assistant') {
    const reasoning = message.reasoning || message.reasoning_content;
    return {
      role,
      ...(reasoning ? { reasoning } : {}),
      ...(content ? { content } : {}),
      ...(message.tool_calls?.length
        ? {
            tool_calls: message.tool_calls.map(({ id, function: called }) => ({
              id: newIdOf(id, ids),
              name: called.name,
              arguments: called.arguments,
            })),
          }
        : {}),
    };
  }
  if (message.role === 'tool')
    return { role, tool_call_id: newIdOf(message.tool_call_id ?? '', ids), content };
  return { role, content };
}

function newIdOf(id: string, ids: Map<string, string>): string {
  const known = ids.get(id) ?? `call_${ids.size + 1}`;
  ids.set(id, known);
  return known;
}

const toolOf = ({ function: { name, description } }: Tool) => ({
  name,
  ...(description ? { description } : {}),
});

/** Angle brackets are escaped, so that no text can close the element around it. */
const toLine = (value: object): string => escapeMarkup(JSON.stringify(value));

function escapeMarkup(text: string): string {
  return text.replaceAll('<', '\\u003c').replaceAll('>', '\\u003e');
}

export interface ShownConversation {
  conversation: ReadableConversation;
  /** Empty if there is none. */
  description: string;
}

/** The prompt of the judge: the task, the lines that all conversations begin with, and the rest of each conversation. */
export function toPrompt(shown: readonly ShownConversation[], task: string | undefined): string {
  const shared = shown.length > 1 ? sharedLines(shown.map(({ conversation }) => conversation.main)) : 0;
  const [first] = shown;
  const parts = shown.map(({ conversation: { main, additional }, description }, at) =>
    element(`conversation id="c${at + 1}"`, [
      ...main.slice(shared),
      ...additional.flatMap((lines) => element('additional_history', lines)),
      ...(description === '' ? [] : [element('description', [escapeMarkup(description)])]),
    ]),
  );
  return [
    ...(task === undefined ? [] : [element('task', [escapeMarkup(task)])]),
    ...(shared > 0
      ? [
          `All conversations begin with this:\n${element('context', first?.conversation.main.slice(0, shared) ?? [])}`,
        ]
      : []),
    ...parts,
  ].join('\n\n');
}

function element(opening: string, lines: readonly string[]): string {
  const [name] = opening.split(' ');
  return `<${opening}>\n${lines.join('\n')}\n</${name}>`;
}
