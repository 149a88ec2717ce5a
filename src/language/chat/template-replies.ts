import { append } from '../../util/extremes.ts';
import { LanguageError } from '../error.ts';
import type { ChatFormat } from '../tokenizer/tokenizer.ts';
import type { CodedPart, CodedTemplate, PromptPart } from './coded-template.ts';

/**
 * What a template writes before every reply: how a generation prompt and a message of the assistant both begin. Of a template
 * that writes the same whether a reply is asked for or not: the generation prompt at its end, as of Llama 3's first one, or
 * the token that ends the question, as of Mistral's.
 */
export function headerOf(template: CodedTemplate, variables: ChatFormat['variables']): CodedPart[] {
  const { question, asked, answered } = probes(template, variables);
  const prompt = difference(asked, question);
  if (prompt?.length === 0) return writtenPrompt(question);
  const reply = difference(answered, question);
  const header: CodedPart[] = [];
  for (const [index, part] of (prompt ?? []).entries()) {
    const other = reply?.[index];
    if (part.type === 'special' && other?.type === 'special' && part.token === other.token) header.push(part);
    else {
      if (part.type !== 'text' || other?.type !== 'text') break;
      let length = 0;
      while (length < part.text.length && part.text[length] === other.text[length]) length++;
      if (length > 0) header.push({ type: 'text', text: part.text.slice(0, length) });
      if (length < part.text.length || length < other.text.length) break;
    }
  }
  return checkHeader(header);
}

/** The generation prompt at the end of a question, else the token that ends it. */
function writtenPrompt(question: readonly CodedPart[]): CodedPart[] {
  const content = question.findIndex((part) => part.type === 'text' && part.text.includes('question'));
  const isSpecialAfter = (before: number) => (part: CodedPart, at: number) =>
    at > before && part.type === 'special';
  const end = question.findIndex(isSpecialAfter(content));
  const begin = question.findIndex(isSpecialAfter(end));
  return checkHeader(content < 0 || end < 0 ? [] : question.slice(begin < 0 ? end : begin));
}

function checkHeader(header: CodedPart[]): CodedPart[] {
  if (header[0]?.type === 'special') return header;
  throw new LanguageError(
    'checkpoint_unsupported',
    'The chat template does not begin replies with a special token, as in <|im_start|>assistant. Give another one with --chat-template.',
  );
}

/** A short conversation, with the generation prompt and with an answer. */
export function probes(template: CodedTemplate, variables: ChatFormat['variables']) {
  const user = { role: 'user', content: 'question' };
  const render = (messages: object[], add: boolean) =>
    template.render(variables, { messages, tools: null, documents: null, add_generation_prompt: add });
  return {
    question: render([user], false),
    asked: render([user], true),
    answered: render([user, { role: 'assistant', content: 'answer' }], false),
  };
}

/** What is probed: a template, the texts that it gets as variables, and whether it gets a tool. */
type Probed = [template: CodedTemplate, variables: ChatFormat['variables'], hasTools: boolean];

const question = { role: 'user', content: 'question' };
const calledWith = new Map([['text', 'called']]);

/** How a template takes a reply with calls: what stands for an empty content, and whether arguments are JSON or values. */
export interface CalledForm {
  empty: '' | null;
  arguments: 'value' | 'json';
}

const usualForm: CalledForm = { empty: '', arguments: 'value' };
/** The usual form first. DeepSeek's templates write calls only of a message without content, and append JSON to a text. */
const calledForms: readonly CalledForm[] = [
  usualForm,
  { empty: null, arguments: 'value' },
  { empty: '', arguments: 'json' },
  { empty: null, arguments: 'json' },
];

/** An id as the templates of Mistral want it. */
export const probeId = 'call00000';

const called = ({ empty, arguments: form }: CalledForm, content: string, calls = 1) => ({
  role: 'assistant',
  content: content === '' ? empty : content,
  tool_calls: Array.from({ length: calls }, () => ({
    id: probeId,
    type: 'function',
    function: {
      name: 'probe',
      arguments: form === 'value' ? calledWith : JSON.stringify(Object.fromEntries(calledWith)),
    },
  })),
});

const tool = { type: 'function', function: { name: 'probe', description: '', parameters: new Map() } };

/** A conversation as the template writes it; null if the template refuses it. */
function written(messages: readonly object[], [template, variables, hasTools]: Probed): CodedPart[] | null {
  try {
    return template.render(variables, { messages, tools: hasTools ? [tool] : null, documents: null });
  } catch {
    // A template may refuse calls of tools that it was not given.
    return null;
  }
}

const isWithout = (parts: readonly CodedPart[] | null, word: string): boolean =>
  parts?.every((part) => part.type !== 'text' || !part.text.includes(word)) ?? false;

/**
 * How a template takes a reply with this content that calls the function `probe`: as values if it can, and so that it
 * writes least, because some write an empty message beside the calls. Null if it writes no calls; the usual form if it
 * refuses all, as some refuse tools that they were not given.
 */
export function calledForm(content: string, ...probed: Probed): CalledForm | null {
  const tried = calledForms.map((form) => ({
    form,
    parts: written([question, called(form, content)], probed),
  }));
  const shown = tried.flatMap(({ form, parts }) =>
    parts && !isWithout(parts, 'called') ? [{ form, length: JSON.stringify(parts).length }] : [],
  );
  const first = shown[0]?.form.arguments;
  const [best] = shown
    .filter(({ form }) => form.arguments === first)
    .sort((one, other) => one.length - other.length);
  return best?.form ?? (tried.every(({ parts }) => parts === null) ? usualForm : null);
}

/**
 * A reply of this content that calls the function `probe` so many times, with special tokens as text: what the template
 * writes after the header (or with another header), up to the end of the reply. Null if it writes no calls.
 */
export function calledReply(
  { content, calls }: { content: string; calls: number },
  header: readonly CodedPart[],
  ends: ReadonlySet<number>,
  textOf: (token: number) => string,
  ...probed: Probed
): string | null {
  const form = calledForm(content, ...probed);
  const parts = form && written([question, called(form, content, calls)], probed);
  const asked = parts && written([question], probed);
  const reply = asked && difference(parts, asked);
  if (!reply) return null;
  const rest = difference(reply, header) ?? reply;
  const end = rest.findIndex((part) => isEnd(part, ends));
  const own = end < 0 ? rest : rest.slice(0, end);
  return own.map((part) => (part.type === 'text' ? part.text : textOf(part.token))).join('');
}

/** Whether a template writes nothing of the content of messages with this role. */
export function leavesOutRole(role: string, ...probed: Probed): boolean {
  const message = { role, content: 'shown', tool_call_id: probeId, name: 'probe' };
  const form = calledForm('', ...probed) ?? usualForm;
  const before = role === 'system' ? [] : role === 'tool' ? [question, called(form, '')] : [question];
  return isWithout(written([...before, message, ...(role === 'system' ? [question] : [])], probed), 'shown');
}

/**
 * What a template writes before a reply to a result of a tool, if that is not the header: the last token before it, as
 * Mistral's `[/TOOL_RESULTS]`.
 */
export function resultHeader(
  header: readonly CodedPart[],
  ends: ReadonlySet<number>,
  ...probed: Probed
): CodedPart[] | null {
  const form = calledForm('', ...probed);
  const result = { role: 'tool', content: 'shown', tool_call_id: probeId, name: 'probe' };
  const parts =
    form && written([question, called(form, ''), result, { role: 'assistant', content: 'answer' }], probed);
  if (!parts) return null;
  const found = findReplies(parts, [header], ends);
  const { start, end } = found.replies.at(-1) ?? { start: 0, end: 0 };
  const holdsAnswer = (part: CodedPart) => part.type === 'text' && part.text.includes('answer');
  if (found.parts.slice(start, end).some(holdsAnswer)) return null;
  const before = parts.slice(0, Math.max(0, parts.findIndex(holdsAnswer)));
  const last = before.findLast((part) => part.type === 'special');
  return last ? [last] : null;
}

/** What follows a beginning; null if the parts do not begin so. */
export function difference(parts: readonly CodedPart[], beginning: readonly CodedPart[]): CodedPart[] | null {
  for (const [index, part] of beginning.entries()) {
    const other = parts[index];
    if (
      part.type === 'special'
        ? other?.type !== 'special' || part.token !== other.token
        : other?.type !== 'text'
    )
      return null;
    if (part.type !== 'text' || other?.type !== 'text') continue;
    if (!other.text.startsWith(part.text)) return null;
    if (other.text === part.text) continue;
    return [{ type: 'text', text: other.text.slice(part.text.length) }, ...parts.slice(index + 1)];
  }
  return parts.slice(beginning.length);
}

/**
 * Finds the replies of a prompt: ranges of its parts after the last header before a token that ends a reply, without what
 * asks for the next one.
 */
export function findReplies(
  rendered: readonly CodedPart[],
  headers: readonly (readonly CodedPart[])[],
  ends: ReadonlySet<number>,
): { parts: CodedPart[]; replies: { start: number; end: number }[] } {
  const parts: CodedPart[] = [];
  const replies: { start: number; end: number }[] = [];
  let start: number | null = null;
  for (let at = 0; at < rendered.length; ) {
    const rests = headers.map((header) => ({
      header,
      rest: difference(rendered.slice(at, at + header.length), header),
    }));
    const found = rests.find(({ rest }) => rest !== null);
    if (found) {
      append(parts, found.header);
      start = parts.length;
      append(parts, found.rest ?? []);
      at += found.header.length;
      continue;
    }
    const part = rendered[at++]!;
    if (start !== null && isEnd(part, ends)) {
      replies.push({ start, end: parts.length });
      start = null;
    }
    parts.push(part);
  }
  return { parts, replies };
}

const isEnd = (part: CodedPart, ends: ReadonlySet<number>) => part.type === 'special' && ends.has(part.token);

/** The parts through the last occurrence of a text, whose trailing white space stays if the template wrote it. */
export function partsThrough(parts: readonly PromptPart[], content: string): PromptPart[] {
  const shortest = content.trim();
  for (let index = parts.length - 1; index >= 0; index--) {
    const part = parts[index];
    const at = part?.type === 'text' ? part.text.lastIndexOf(shortest) : -1;
    if (part?.type !== 'text' || at < 0) continue;
    const whole = content.trimStart();
    const end = at + (part.text.startsWith(whole, at) ? whole : shortest).length;
    return [...parts.slice(0, index), { type: 'text', text: part.text.slice(0, end) }];
  }
  throw new LanguageError(
    'not_in_chat_template',
    "The model's chat template does not write the message to continue as it is.",
  );
}
