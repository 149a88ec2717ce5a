import type { Choice, Message, Tool } from '../../contract/index.ts';
import type { Trajectory } from '../../trajectory/index.ts';

/** A trajectory as a judge reads it: each entry one line of JSON, which nothing in it can break out of. */
export interface ReadableConversation {
  main: string[];
  /** Conversations that did not go on from the main one: sub-agents, parallel calls, compacted histories. */
  additional: string[][];
}

/**
 * What was said, without tokens. Ids of tool calls are counted anew, so that conversations that say the same are the
 * same.
 */
export function readConversation({ histories }: Trajectory): ReadableConversation {
  const [main = [], ...additional] = histories.map(({ entries, tools }) => {
    const ids = new Map<string, string>();
    const lines = entries.map((entry) => toLine(plain(entry, ids)));
    return tools?.length ? [toLine({ tools: tools.map(toolOf) }), ...lines] : lines;
  });
  return { main, additional };
}

/** How many lines all of these begin with alike. */
export function sharedLines(conversations: readonly (readonly string[])[]): number {
  const [first = [], ...others] = conversations;
  let shared = 0;
  while (shared < first.length && others.every((lines) => lines[shared] === first[shared])) shared++;
  return shared;
}

function plain(entry: Message | Choice, ids: Map<string, string>): object {
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
              id: renamed(id, ids),
              name: called.name,
              arguments: called.arguments,
            })),
          }
        : {}),
    };
  }
  if (message.role === 'tool')
    return { role, tool_call_id: renamed(message.tool_call_id ?? '', ids), content };
  return { role, content };
}

function renamed(id: string, ids: Map<string, string>): string {
  const known = ids.get(id) ?? `call_${ids.size + 1}`;
  ids.set(id, known);
  return known;
}

const toolOf = ({ function: { name, description } }: Tool) => ({
  name,
  ...(description ? { description } : {}),
});

/** Without angle brackets: no text can end the element that it stands in. */
const toLine = (value: object): string => escapeMarkup(JSON.stringify(value));

export function escapeMarkup(text: string): string {
  return text.replaceAll('<', '\\u003c').replaceAll('>', '\\u003e');
}

/** Conversations that say the same are one candidate. */
export interface Candidate {
  conversation: ReadableConversation;
  description: string;
  /** Hash of what is shown of it. */
  key: string;
}

/** What the judge reads: the task, what all conversations begin with alike, and then each of them. */
export function toPrompt(shown: readonly Candidate[], task: string | undefined): string {
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
