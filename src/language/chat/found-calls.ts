import { exactJsonOf, exactText } from '../../util/exact-json.ts';
import { CALL_ID, type CallForm, callForms, type ReplyStyles } from '../call-forms.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { asTemplateWrites } from './call-patterns.ts';
import { argumentsText } from './call-text.ts';
import { ReplyReader } from './reply-reader.ts';
import { probeId } from './template-replies.ts';

/** What a template writes of a reply of this content with so many calls of `probe`; null if it leaves them out. */
type WrittenReply = (reply: { content: string; calls: number }) => string | null;

/**
 * How a model writes calls, as its template shows: the form that reads what the template writes of a call of `probe`, with
 * the template's white space. A template that writes none tells less: its source and the tokenizer decide.
 *
 * @param style The name of the form, in place of the one that is looked for.
 * @param source Of all templates of the model.
 * @returns `unread`: a reply with a call, where no form reads it
 */
export function foundCalls(
  style: ReplyStyles['toolCalls'],
  source: string,
  { added }: Pick<Tokenizer, 'added'>,
  writtenReply: WrittenReply,
): { calls: CallForm | null; unread?: string | undefined } {
  if (style === 'none') return { calls: null };
  if (style) return { calls: asWritten(callForms[style], writtenReply) };
  if (!/\btools\b/.test(source)) return { calls: null };
  const { hermes, lfm2, llama, json, ...others } = callForms;
  const reply = writtenReply({ content: '', calls: 1 });
  if (reply !== null) {
    const bare = reply.includes('"parameters"') ? llama : json;
    const calls = [hermes, lfm2, ...Object.values(others), bare].find((form) => reads(form, reply));
    return calls ? { calls: asWritten(calls, writtenReply) } : { calls: null, unread: reply };
  }
  if (source.includes('<tool_call>')) return { calls: hermes };
  // LFM2's first template shows tools, but no calls.
  if (lfm2.tags.some((tag) => added.has(tag))) return { calls: lfm2 };
  return { calls: source.includes('"parameters') ? llama : json };
}

const probed = { name: 'probe', text: '{"text":"called"}' };

/** Whether replies of a form are read so that nothing but the call of `probe` is in this one. */
function reads(form: CallForm, reply: string): boolean {
  const reader = new ReplyReader({
    calls: form,
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
    names.join() === probed.name &&
    value !== undefined &&
    exactText(value) === probed.text
  );
}

const asWritten = (form: CallForm, writtenReply: WrittenReply): CallForm =>
  asTemplateWrites(form, {
    name: probed.name,
    arguments:
      form.arguments === 'json'
        ? String.raw`\{\s*"text"\s*:\s*"called"\s*\}`
        : argumentsText(form, probed.text),
    reply: (content, calls) => writtenReply({ content, calls })?.replaceAll(probeId, CALL_ID) ?? null,
  });
