import type { Message } from '../contract/index.ts';
import { EndpointError } from './endpoint-error.ts';

/** Output items of the Responses API. */
export interface ReasoningItem {
  id: string;
  type: 'reasoning';
  status: ItemStatus;
  summary: [];
  content: { type: 'reasoning_text'; text: string }[];
  /** The text for clients that keep only this field of an item. Present if requested. */
  encrypted_content?: string;
}

export interface MessageItem {
  id: string;
  type: 'message';
  status: ItemStatus;
  role: 'assistant';
  content: { type: 'output_text'; text: string; annotations: []; logprobs: [] }[];
}

export interface FunctionCallItem {
  id: string;
  type: 'function_call';
  status: ItemStatus;
  call_id: string;
  name: string;
  arguments: string;
}

export type ItemStatus = 'in_progress' | 'completed' | 'incomplete';
export type OutputItem = ReasoningItem | MessageItem | FunctionCallItem;

/** One answered request: the messages it added, and the response it continued from. */
export interface RememberedResponse {
  previous: RememberedResponse | undefined;
  /** The request's messages and the reply, without instructions, which apply only to their own request. */
  messages: readonly Message[];
  /** `callIds[i]` is the call that sampled `messages[i]`. */
  callIds: readonly (string | undefined)[];
  callId: string | undefined;
  output: readonly OutputItem[];
}

/** Maximum number of responses per key; the oldest are dropped first. Only keys outside of rollouts live long enough. */
const maxResponses = 10_000;

/** Stored responses, for requests that continue from a response or refer to its items. */
export class ResponseMemory {
  readonly #responses = new Map<string, RememberedResponse>();

  keep(id: string, response: RememberedResponse): void {
    this.#responses.set(id, response);
    if (this.#responses.size <= maxResponses) return;
    const [oldest] = this.#responses.keys();
    if (oldest !== undefined) this.#responses.delete(oldest);
  }

  /** @throws EndpointError for a response that this key has not stored. */
  require(id: string): RememberedResponse {
    const response = this.#responses.get(id);
    if (response) return response;
    throw new EndpointError(
      400,
      'previous_response_not_found',
      `This key has no response "${id}". Each rollout has its own responses, and a request with ` +
        '`store: false` leaves none.',
      'previous_response_id',
    );
  }

  /** The item with this id, and the call that sampled it. */
  item(id: string): { item: OutputItem; callId: string | undefined } | undefined {
    const response = this.#responses.get(responseIdOf(id));
    const item = response?.output.find((candidate) => candidate.id === id);
    return response && item ? { item, callId: response.callId } : undefined;
  }
}

/** Item ids contain their response's id: `msg_<response>_<index>`. */
export const itemId = (prefix: 'rs' | 'msg' | 'fc', responseId: string, index: number): string =>
  `${prefix}_${responseId.replace(/^resp_/, '')}_${index}`;

const responseIdOf = (id: string): string => `resp_${id.split('_')[1] ?? ''}`;

/** The conversation from its first request up to and including a response. */
export function conversationOf(response: RememberedResponse | undefined): {
  messages: Message[];
  callIds: (string | undefined)[];
} {
  const chain: RememberedResponse[] = [];
  for (let at = response; at; at = at.previous) chain.push(at);
  chain.reverse();
  return {
    messages: chain.flatMap(({ messages }) => messages),
    callIds: chain.flatMap(({ callIds }) => callIds),
  };
}
