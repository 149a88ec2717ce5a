import { z } from 'zod';
import { type Message, optional, type ToolCall } from '../../contract/index.ts';
import { assistantMessage } from '../../trajectory/index.ts';
import { invalid, unsupported } from '../endpoint-error.ts';
import { asFields, parse } from '../read-fields.ts';
import type { ResponseMemory } from '../response-memory.ts';
import { decodeReasoning } from './response-object.ts';

/** Assembles an assistant message from the items of a reply. */
class AssistantDraft {
  text = '';
  reasoning = '';
  readonly calls: ToolCall[] = [];
  #callId: string | undefined;
  #isOfOneCall = true;

  constructor(callId: string | undefined) {
    this.#callId = callId;
  }

  /** The call that sampled all items so far; undefined if unknown. */
  get callId(): string | undefined {
    return this.#isOfOneCall ? this.#callId : undefined;
  }

  /** Whether a part belongs to this message. If not, it begins a new reply. */
  takes(part: 'reasoning' | 'text' | 'call', callId: string | undefined): boolean {
    if (callId !== undefined && this.#callId !== undefined) return callId === this.#callId;
    if (part === 'call') return true;
    return this.calls.length === 0 && this.text === '';
  }

  addCallId(callId: string | undefined): void {
    if (callId !== this.#callId) this.#isOfOneCall = false;
  }

  toMessage(): Message {
    return assistantMessage(this.text, this.reasoning, this.calls);
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

interface ReadItems {
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
    draft.addCallId(callId);
    return draft;
  };
  const read = (value: unknown, path: string) => {
    const item = asFields(value, path);
    const type = item.type ?? 'message';
    if (type === 'message') {
      const { id, role, content } = parse(messageItem, item, path);
      const text = textOf(content, `${path}.content`);
      if (role === 'assistant') reply('text', id).text += text;
      else add({ role, content: text });
    } else if (type === 'function_call') {
      const { id, call_id, name, arguments: input } = parse(functionCall, item, path);
      reply('call', id).calls.push({
        id: call_id,
        type: 'function',
        function: { name, arguments: input },
      });
    } else if (type === 'function_call_output') {
      const { call_id, output } = parse(functionOutput, item, path);
      add({ role: 'tool', tool_call_id: call_id, content: textOf(output, `${path}.output`) });
    } else if (type === 'reasoning') {
      const { id, summary = [], content = [], encrypted_content } = parse(reasoning, item, path);
      const plain = (content.length > 0 ? content : summary).map((part) => part.text).join('');
      reply('reasoning', id).reasoning +=
        plain === '' && encrypted_content !== undefined ? decodeReasoning(encrypted_content) : plain;
    } else if (type === 'item_reference') {
      const { id } = parse(reference, item, path);
      const found = memory.item(id);
      if (!found) throw invalid(`${path}.id`, `is "${id}", which is not a stored item of this key.`);
      read(found.item, path);
    } else
      throw unsupported(`${path}.type`, `It is "${String(type)}"; the models read text and function calls.`);
  };
  for (const [index, item] of input.entries()) read(item, `input.${index}`);
  flush();
  return { messages, callIds };
}

const textParts = new Set(['input_text', 'output_text', 'text', 'refusal']);

function textOf(content: string | readonly unknown[], path: string): string {
  if (typeof content === 'string') return content;
  return content
    .map((part, index) => {
      const { type, text, refusal } = asFields(part, `${path}.${index}`);
      const content = type === 'refusal' ? refusal : text;
      if (typeof type === 'string' && textParts.has(type) && typeof content === 'string') return content;
      throw unsupported(`${path}.${index}.type`, `It is "${String(type)}"; the models read text.`);
    })
    .join('');
}
