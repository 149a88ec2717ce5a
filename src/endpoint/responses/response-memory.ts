import type { Message } from '../../contract/index.ts';
import { EndpointError } from '../endpoint-error.ts';
import type { OutputItem } from './response-object.ts';

/** One answered request: what it added to the conversation, and the conversation it went on from. */
export interface RememberedResponse {
  previous: RememberedResponse | undefined;
  /** What the request added, and the reply. Instructions are not among them: they hold for their request alone. */
  messages: readonly Message[];
  /** `callIds[i]` is the call that sampled `messages[i]`. */
  callIds: readonly (string | undefined)[];
  callId: string | undefined;
  output: readonly OutputItem[];
}

/** As many as a key remembers; the oldest are forgotten first. Only keys without a rollout live so long. */
const mostResponses = 10_000;

/** Responses that were stored, for requests that go on from one or refer to items of one. */
export class ResponseMemory {
  readonly #responses = new Map<string, RememberedResponse>();

  keep(id: string, response: RememberedResponse): void {
    this.#responses.set(id, response);
    if (this.#responses.size <= mostResponses) return;
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
      `There is no response "${id}" under this key. Each rollout has its own, and only those of requests without ` +
        '`store: false` are kept.',
      'previous_response_id',
    );
  }

  /** The item of that id, with the call that sampled it. */
  item(id: string): { item: OutputItem; callId: string | undefined } | undefined {
    const response = this.#responses.get(responseIdOf(id));
    const item = response?.output.find((candidate) => candidate.id === id);
    return response && item ? { item, callId: response.callId } : undefined;
  }
}

/** Item ids name their response: `msg_<response>_<place>`. */
export const itemId = (prefix: 'rs' | 'msg' | 'fc', responseId: string, place: number): string =>
  `${prefix}_${responseId.replace(/^resp_/, '')}_${place}`;

const responseIdOf = (id: string): string => `resp_${id.split('_')[1] ?? ''}`;

/** The conversation up to and with a response, from its first request on. */
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
