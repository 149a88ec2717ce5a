import { exactJsonOf, exactText } from '../../util/exact-json.ts';
import { type CallStyle, pythonTags, type Tokenizer } from '../tokenizer/tokenizer.ts';
import type { ReplyStyles } from './call-text.ts';
import { ReplyReader } from './reply-reader.ts';

type UntokenizedStyle = Omit<CallStyle, 'tokens'>;

const tags = { open: '<tool_call>', close: '</tool_call>' } as const;
const bare = { open: '', close: '' } as const;

export const callStyles = {
  hermes: { form: 'object', ...tags, argumentsField: 'arguments' },
  named: { form: 'named', ...tags, argumentsField: 'arguments' },
  lfm2: { form: 'python', ...pythonTags, argumentsField: 'arguments' },
  llama: { form: 'object', ...bare, argumentsField: 'parameters' },
  json: { form: 'object', ...bare, argumentsField: 'arguments' },
  none: null,
} as const satisfies Record<NonNullable<ReplyStyles['toolCalls']>, UntokenizedStyle | null>;

/**
 * How a model writes calls, as its template shows: the style that reads what the template writes of a call of `probe`. A
 * template that writes none tells less: its source and the tokenizer decide.
 *
 * @param source Of all templates of the model.
 * @param writtenReply What the template writes of a reply with such a call; null if it leaves it out.
 * @returns `unread`: such a reply, where no style reads it
 */
export function foundCalls(
  source: string,
  { added }: Tokenizer,
  writtenReply: () => string | null,
): { calls: UntokenizedStyle | null; unread?: string | undefined } {
  if (!/\btools\b/.test(source)) return { calls: null };
  const reply = writtenReply();
  if (reply !== null) {
    const { hermes, named, lfm2, llama, json } = callStyles;
    const object = reply.includes('"parameters"') ? llama : json;
    const calls = [hermes, named, lfm2, object].find((style) => reads(style, reply));
    return calls ? { calls } : { calls: null, unread: reply };
  }
  if (source.includes(tags.open)) return { calls: callStyles.hermes };
  // LFM2's first template shows tools, but no calls.
  if (added.has(pythonTags.open)) return { calls: callStyles.lfm2 };
  return { calls: source.includes('"parameters') ? callStyles.llama : callStyles.json };
}

/** Whether replies of a style are read so that nothing but the call of `probe` is in this one. */
function reads(style: UntokenizedStyle, reply: string): boolean {
  const reader = new ReplyReader({
    calls: style,
    reasoning: { open: '<think>', close: '</think>', opened: false },
  });
  const names: string[] = [];
  let [written, content] = ['', ''];
  for (const piece of [...reader.push(reply), ...reader.end({ isCut: false })]) {
    if (piece.type === 'content') content += piece.text;
    if (piece.type === 'call') names.push(piece.name);
    if (piece.type === 'call') written += piece.arguments;
    if (piece.type === 'arguments') written += piece.text;
  }
  const value = exactJsonOf(written);
  return (
    content.trim() === '' &&
    names.join() === 'probe' &&
    value !== undefined &&
    exactText(value) === '{"text":"called"}'
  );
}
