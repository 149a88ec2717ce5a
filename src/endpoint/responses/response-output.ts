import type { ToolCall } from '../../contract/index.ts';
import {
  type FunctionCallItem,
  type ItemStatus,
  itemId,
  type MessageItem,
  type OutputItem,
  type ReasoningItem,
} from '../response-memory.ts';
import { encodeReasoning } from './response-object.ts';

/** An event of a streamed response, without its sequence number. */
export interface ResponseEvent {
  type: string;
  [field: string]: unknown;
}

type Events = Generator<ResponseEvent, void, undefined>;

interface Call {
  item: FunctionCallItem;
  index: number;
}

/**
 * The output of a response while it is sampled: its items and their events. One reasoning or text item is open at a
 * time. Calls stay open until the reply ends.
 */
export class ResponseOutput {
  readonly items: OutputItem[] = [];
  readonly #responseId: string;
  readonly #encrypted: boolean;
  #open: { item: ReasoningItem | MessageItem; index: number } | undefined;
  readonly #calls = new Map<number, Call>();

  constructor(responseId: string, { encryptedReasoning }: { encryptedReasoning: boolean }) {
    this.#responseId = responseId;
    this.#encrypted = encryptedReasoning;
  }

  *reasoning(delta: string): Events {
    if (this.#open?.item.type !== 'reasoning')
      yield* this.#begin(
        (id) => ({ id, type: 'reasoning', status: 'in_progress', summary: [], content: [] }),
        'rs',
      );
    yield* this.#extend(delta);
  }

  *text(delta: string): Events {
    if (this.#open?.item.type !== 'message')
      yield* this.#begin(
        (id) => ({ id, type: 'message', status: 'in_progress', role: 'assistant', content: [] }),
        'msg',
      );
    yield* this.#extend(delta);
  }

  /** @param position Index of the call among the reply's calls. */
  *call(position: number, { id, name, delta }: { id: string; name: string; delta: string }): Events {
    let call = this.#calls.get(position);
    if (!call) {
      yield* this.#close('completed');
      const index = this.items.length;
      const item: FunctionCallItem = {
        id: itemId('fc', this.#responseId, index),
        type: 'function_call',
        status: 'in_progress',
        call_id: id,
        name,
        arguments: '',
      };
      call = { item, index };
      this.#calls.set(position, call);
      this.items.push(item);
      yield { type: 'response.output_item.added', output_index: index, item: { ...item } };
    }
    if (delta === '') return;
    call.item.arguments += delta;
    yield {
      type: 'response.function_call_arguments.delta',
      item_id: call.item.id,
      output_index: call.index,
      delta,
    };
  }

  /** Ends all items. An empty reply becomes an empty message, so that the next request can include it. */
  *end(status: ItemStatus): Events {
    if (this.items.length === 0) yield* this.text('');
    yield* this.#close(status);
    for (const { item, index } of this.#calls.values()) {
      item.status = status;
      yield {
        type: 'response.function_call_arguments.done',
        item_id: item.id,
        output_index: index,
        name: item.name,
        arguments: item.arguments,
      };
      yield { type: 'response.output_item.done', output_index: index, item };
    }
  }

  /** Adds a whole reply and ends it. */
  *whole(reply: { reasoning: string; text: string; calls: readonly ToolCall[] }, status: ItemStatus): Events {
    if (reply.reasoning !== '') yield* this.reasoning(reply.reasoning);
    if (reply.text !== '') yield* this.text(reply.text);
    for (const [position, { id, function: called }] of reply.calls.entries())
      yield* this.call(position, { id, name: called.name, delta: called.arguments });
    yield* this.end(status);
  }

  *#begin(create: (id: string) => ReasoningItem | MessageItem, prefix: 'rs' | 'msg'): Events {
    yield* this.#close('completed');
    const index = this.items.length;
    const item = create(itemId(prefix, this.#responseId, index));
    this.#open = { item, index };
    this.items.push(item);
    yield { type: 'response.output_item.added', output_index: index, item: { ...item, content: [] } };
    const at = { item_id: item.id, output_index: index, content_index: 0 };
    yield {
      type: 'response.content_part.added',
      ...at,
      part: item.type === 'message' ? emptyText() : emptyReasoning(),
    };
    if (item.type === 'message') item.content.push(emptyText());
    else item.content.push(emptyReasoning());
  }

  *#extend(delta: string): Events {
    const [part] = this.#open?.item.content ?? [];
    if (!this.#open || !part || delta === '') return;
    part.text += delta;
    const { item, index } = this.#open;
    const at = { item_id: item.id, output_index: index, content_index: 0 };
    if (item.type === 'message') yield { type: 'response.output_text.delta', ...at, delta, logprobs: [] };
    else yield { type: 'response.reasoning_text.delta', ...at, delta };
  }

  *#close(status: ItemStatus): Events {
    if (!this.#open) return;
    const { item, index } = this.#open;
    this.#open = undefined;
    item.status = status;
    const [part] = item.content;
    const text = part?.text ?? '';
    const at = { item_id: item.id, output_index: index, content_index: 0 };
    if (item.type === 'message') yield { type: 'response.output_text.done', ...at, text, logprobs: [] };
    else {
      yield { type: 'response.reasoning_text.done', ...at, text };
      if (this.#encrypted) item.encrypted_content = encodeReasoning(text);
    }
    yield { type: 'response.content_part.done', ...at, part };
    yield { type: 'response.output_item.done', output_index: index, item };
  }
}

const emptyText = (): MessageItem['content'][number] => ({
  type: 'output_text',
  text: '',
  annotations: [],
  logprobs: [],
});
const emptyReasoning = (): ReasoningItem['content'][number] => ({ type: 'reasoning_text', text: '' });
