import type { Channels } from '../tokenizer/tokenizer.ts';
import type { Turn } from './conversation.ts';

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
