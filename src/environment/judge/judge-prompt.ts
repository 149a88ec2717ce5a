import { escapeMarkup, type ReadableConversation, sharedLines } from './conversation-text.ts';

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
