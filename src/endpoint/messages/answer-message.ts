import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { reasoningOf } from '../../trajectory/index.ts';
import { messagesErrorBody } from '../endpoint-error.ts';
import { type EndpointAnswer, eventFrame } from '../exchange.ts';
import {
  answerComplete,
  answerStreamed,
  countPrompt,
  type EndpointSession,
  type StreamedAnswer,
} from '../session.ts';
import {
  blocksOf,
  type ContentBlock,
  endOf,
  type TextBlock,
  type ThinkingBlock,
  textBlock,
  thinkingBlock,
  toolUseBlocks,
  usageOf,
} from './message-blocks.ts';
import { type ParsedMessageRequest, readMessageBody } from './message-body.ts';

/** `POST /v1/messages`. */
export async function answerMessage(
  session: EndpointSession,
  body: unknown,
  client: ServerResponse,
): Promise<EndpointAnswer> {
  const parsed = readMessageBody(body);
  if (parsed.stream) return { frames: frames(await answerStreamed(session, client, parsed.request), parsed) };
  const { completion, choice } = await answerComplete(session, client, parsed.request);
  const { model, usage } = completion;
  return { json: { ...messageOf(model, blocksOf(choice, parsed)), ...endOf(choice), usage: usageOf(usage) } };
}

/** `POST /v1/messages/count_tokens`. */
export async function answerCount(
  session: EndpointSession,
  body: unknown,
  client: ServerResponse,
): Promise<EndpointAnswer> {
  const { request } = readMessageBody(body);
  return { json: { input_tokens: await countPrompt(session, client, request) } };
}

const messageOf = (model: string, content: readonly ContentBlock[]) => ({
  id: `msg_${randomUUID().replaceAll('-', '')}`,
  type: 'message',
  role: 'assistant',
  model,
  content,
  container: null,
  stop_details: null,
});

type Frames = Generator<string, void, undefined>;

const event = (type: string, fields: object = {}) => eventFrame(type, { type, ...fields });

async function* frames(
  { chunks, reply }: StreamedAnswer,
  parsed: ParsedMessageRequest,
): AsyncGenerator<string> {
  const blocks = new BlockStream(parsed);
  let hasBegun = false;
  try {
    for await (const chunk of chunks) {
      if (!hasBegun) {
        hasBegun = true;
        const usage = { ...usageOf(undefined), input_tokens: chunk.prompt_token_ids?.length ?? 0 };
        const message = { ...messageOf(chunk.model, []), stop_reason: null, stop_sequence: null, usage };
        yield event('message_start', { message });
      }
      const { delta } = chunk.choices[0] ?? {};
      const reasoning = reasoningOf(delta ?? {});
      if (reasoning) yield* blocks.add('thinking', reasoning);
      if (delta?.content) yield* blocks.add('text', delta.content);
      // Calls are shown when the reply is complete. Until then the client sees that it is still being sampled.
      if (!reasoning && !delta?.content) yield event('ping');
    }
    const { choice, usage } = reply.complete();
    yield* blocks.end(toolUseBlocks(choice));
    yield event('message_delta', { delta: { ...endOf(choice), stop_details: null }, usage: usageOf(usage) });
    yield event('message_stop');
  } catch (error) {
    yield eventFrame('error', messagesErrorBody(error));
  }
}

/**
 * The blocks of a streamed reply as events, one open at a time. Calls are sent whole at the end: clients throw at an
 * input that is not JSON, and must not run a call before it is recorded.
 */
class BlockStream {
  readonly #omits: boolean;
  #open: ThinkingBlock | TextBlock | undefined;
  #thought = '';
  #hasText = false;
  #index = 0;

  constructor({ omitsThinking }: { omitsThinking: boolean }) {
    this.#omits = omitsThinking;
  }

  *add(type: 'thinking' | 'text', piece: string): Frames {
    if (this.#open?.type !== type) {
      yield* this.#close();
      this.#open = type === 'text' ? textBlock('') : thinkingBlock('', { omits: true });
      yield this.#start(this.#open);
    }
    if (type === 'text') {
      this.#hasText = true;
      yield this.#delta({ type: 'text_delta', text: piece });
    } else {
      this.#thought += piece;
      yield this.#omits ? event('ping') : this.#delta({ type: 'thinking_delta', thinking: piece });
    }
  }

  *end(calls: ReturnType<typeof toolUseBlocks>): Frames {
    if (!this.#hasText && calls.length === 0) yield* this.add('text', '');
    yield* this.#close();
    for (const call of calls) {
      yield this.#start({ ...call, input: {} });
      yield this.#delta({ type: 'input_json_delta', partial_json: JSON.stringify(call.input) });
      yield this.#stop();
    }
  }

  *#close(): Frames {
    if (this.#open?.type === 'thinking') {
      const { signature } = thinkingBlock(this.#thought, { omits: true });
      yield this.#delta({ type: 'signature_delta', signature });
      this.#thought = '';
    }
    if (this.#open) yield this.#stop();
    this.#open = undefined;
  }

  #start(content_block: ContentBlock): string {
    return event('content_block_start', { index: this.#index, content_block });
  }

  #delta(delta: object): string {
    return event('content_block_delta', { index: this.#index, delta });
  }

  #stop(): string {
    return event('content_block_stop', { index: this.#index++ });
  }
}
