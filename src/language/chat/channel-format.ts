import type { Channels, Tokenizer } from '../tokenizer/tokenizer.ts';
import type { CodedPart } from './coded-template.ts';
import type { Turn } from './conversation.ts';

/**
 * The tokens of channels, if a template writes replies in them.
 * @param answered What the template writes of a reply with the text `answer`.
 */
export function foundChannels(answered: readonly CodedPart[], { added }: Tokenizer): Channels | null {
  const [start, channel, message] = specialBefore(answered);
  const [end, call] = [added.get('<|end|>'), added.get('<|call|>')];
  if (start === undefined || channel === undefined || message === undefined) return null;
  const isNamed = added.get('<|channel|>') === channel && added.get('<|message|>') === message;
  if (!isNamed || end === undefined || call === undefined) return null;
  return { start, channel, message, constrain: added.get('<|constrain|>') ?? null, end, call };
}

/** The special tokens before the text of a reply. */
function specialBefore(answered: readonly CodedPart[]): number[] {
  const answer = answered.findIndex((part) => part.type === 'text' && part.text.includes('answer'));
  return answered
    .slice(0, Math.max(0, answer))
    .flatMap((part) => (part.type === 'special' ? [part.token] : []));
}

/** What a prompt has written of a reply: the tokens after its last `start`. */
export function openingOf(prompt: readonly number[], { start }: Channels): number[] {
  const at = prompt.lastIndexOf(start);
  return at < 0 ? [] : prompt.slice(at + 1);
}

/**
 * A reply as a model of channels writes it after `assistant`: reasoning, then its text, or a call with its text before it. The
 * last part is the token that ends it.
 */
export function writtenChannels(
  { reasoning, content, toolCalls: [call] }: Pick<Turn, 'reasoning' | 'content' | 'toolCalls'>,
  { start, channel, message, constrain, end, call: callEnd }: Channels,
  endToken: number,
): (string | number)[] {
  const next = [end, start, 'assistant'];
  const thought = reasoning ? [channel, 'analysis', message, reasoning, ...next] : [];
  if (!call) return [...thought, channel, 'final', message, ...(content === '' ? [] : [content]), endToken];
  const preamble = content === '' ? [] : [channel, 'commentary', message, content, ...next];
  const header = `commentary to=functions.${call.name} `;
  const typed = constrain === null ? [`${header}json`] : [header, constrain, 'json'];
  return [...thought, ...preamble, channel, ...typed, message, call.arguments, callEnd];
}
