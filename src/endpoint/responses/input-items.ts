import { z } from 'zod';
import { type Message, optional, type ToolCall } from '../../contract/index.ts';
import { invalid, unsupported } from '../endpoint-error.ts';
import { asFields, parse } from '../read-fields.ts';
import type { ResponseMemory } from './response-memory.ts';
import { decodeReasoning } from './response-object.ts';

type AssistantMessage = Extract<Message, { role: 'assistant' }>;

/** Assembles an assistant message from the items of a reply. */
export class AssistantDraft {
  text = '';
  reasoning = '';
  readonly calls: ToolCall[] = [];
  #callId: string | undefined;
  #isOfOne = true;

  constructor(callId: string | undefined) {
    this.#callId = callId;
  }

  /** The call that sampled all items so far; undefined if unknown. */
  get callId(): string | undefined {
    return this.#isOfOne ? this.#callId : undefined;
  }

  /** Whether a part belongs to this message. If not, it begins a new reply. */
  takes(part: 'reasoning' | 'text' | 'call', callId: string | undefined): boolean {
    if (callId !== undefined && this.#callId !== undefined) return callId === this.#callId;
    if (part === 'call') return true;
    return this.calls.length === 0 && this.text === '';
  }

  meet(callId: string | undefined): void {
    if (callId !== this.#callId) this.#isOfOne = false;
  }

  toMessage(): AssistantMessage {
    return {
      role: 'assistant',
      content: this.text === '' && this.calls.length > 0 ? null : this.text,
      ...(this.reasoning === '' ? {} : { reasoning_content: this.reasoning }),
      ...(this.calls.length > 0 ? { tool_calls: this.calls } : {}),
    };
  }
}

const text = z.object({ type: z.string(), text: z.string() });
const messageItem = z.object({
  id: optional(z.string()),
  role: z.enum(['user', 'assistant', 'system', 'developer']),
  content: z.union([z.string(), z.array(z.unknown())]),
});
const functionCall = z.object({
  id: optional(z.string()),
  call_id: z.string(),
  name: z.string(),
  arguments: z.string(),
});
const functionOutput = z.object({ call_id: z.string(), output: z.union([z.string(), z.array(z.unknown())]) });
const reasoning = z.object({
  id: optional(z.string()),
  summary: optional(z.array(text)),
  content: optional(z.array(text)),
  encrypted_content: optional(z.string()),
});
const reference = z.object({ id: z.string() });

export interface ReadItems {
  messages: Message[];
  callIds: (string | undefined)[];
}

/**
 * Converts input items to chat messages. The items of one reply become one message again: items whose ids belong to the
 * same reply, and adjacent items without ids in the order of a reply's parts.
 * @throws EndpointError that names the item, for files, images and other unsupported items.
 */
export function readInput(input: string | readonly unknown[], memory: ResponseMemory): ReadItems {
  if (typeof input === 'string')
    return { messages: [{ role: 'user', content: input }], callIds: [undefined] };
  const messages: Message[] = [];
  const callIds: (string | undefined)[] = [];
  let draft: AssistantDraft | undefined;
  const flush = () => {
    if (!draft) return;
    messages.push(draft.toMessage());
    callIds.push(draft.callId);
    draft = undefined;
  };
  const add = (message: Message) => {
    flush();
    messages.push(message);
    callIds.push(undefined);
  };
  /** The draft message for a part of a reply. */
  const reply = (part: 'reasoning' | 'text' | 'call', id: string | undefined): AssistantDraft => {
    const callId = id === undefined ? undefined : memory.item(id)?.callId;
    if (draft && !draft.takes(part, callId)) flush();
    draft ??= new AssistantDraft(callId);
    draft.meet(callId);
    return draft;
  };
  const read = (given: unknown, place: string) => {
    const item = asFields(given, place);
    const type = item.type ?? 'message';
    if (type === 'message') {
      const { id, role, content } = parse(messageItem, item, place);
      const said = textOf(content, `${place}.content`);
      if (role === 'assistant') reply('text', id).text += said;
      else add({ role, content: said });
    } else if (type === 'function_call') {
      const { id, call_id, name, arguments: written } = parse(functionCall, item, place);
      reply('call', id).calls.push({
        id: call_id,
        type: 'function',
        function: { name, arguments: written },
      });
    } else if (type === 'function_call_output') {
      const { call_id, output } = parse(functionOutput, item, place);
      add({ role: 'tool', tool_call_id: call_id, content: textOf(output, `${place}.output`) });
    } else if (type === 'reasoning') {
      const { id, summary = [], content = [], encrypted_content } = parse(reasoning, item, place);
      const thought = (content.length > 0 ? content : summary).map((part) => part.text).join('');
      reply('reasoning', id).reasoning +=
        thought === '' && encrypted_content !== undefined ? decodeReasoning(encrypted_content) : thought;
    } else if (type === 'item_reference') {
      const { id } = parse(reference, item, place);
      const found = memory.item(id);
      if (!found) throw invalid(`${place}.id`, `names "${id}", which is no stored item of this key.`);
      read(found.item, place);
    } else
      throw unsupported(`${place}.type`, `It is "${String(type)}"; the models read text and function calls.`);
  };
  for (const [index, item] of input.entries()) read(item, `input.${index}`);
  flush();
  return { messages, callIds };
}

const textParts = new Set(['input_text', 'output_text', 'text', 'refusal']);

function textOf(content: string | readonly unknown[], place: string): string {
  if (typeof content === 'string') return content;
  return content
    .map((given, index) => {
      const { type, text, refusal } = asFields(given, `${place}.${index}`);
      const said = type === 'refusal' ? refusal : text;
      if (typeof type === 'string' && textParts.has(type) && typeof said === 'string') return said;
      throw unsupported(`${place}.${index}.type`, `It is "${String(type)}"; the models read text.`);
    })
    .join('');
}
