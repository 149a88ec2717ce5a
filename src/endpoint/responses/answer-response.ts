import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { Choice, FinishReason, Message } from '../../contract/index.ts';
import { reasoningOf, sampledMessage } from '../../trajectory/index.ts';
import { errorBody, invalid } from '../endpoint-error.ts';
import { type EndpointAnswer, eventFrame } from '../exchange.ts';
import { conversationOf, type RememberedResponse } from '../response-memory.ts';
import {
  answerComplete,
  answerStreamed,
  type EndpointRequest,
  type EndpointSession,
  type StreamedAnswer,
  type WholeAnswer,
} from '../session.ts';
import { readInput } from './input-items.ts';
import { chatSettings, type ResponseBody, readResponseBody } from './response-body.ts';
import { incompleteReason, type ResponseEnd, responseObject } from './response-object.ts';
import { type ResponseEvent, ResponseOutput } from './response-output.ts';

/** `POST /v1/responses`. */
export async function answerResponse(
  session: EndpointSession,
  body: unknown,
  client: ServerResponse,
): Promise<EndpointAnswer> {
  const response = new ResponseInProgress(session, readResponseBody(body));
  if (!response.body.stream)
    return { json: response.answer(await answerComplete(session, client, response.request)) };
  const answer = await answerStreamed(session, client, response.request);
  return { frames: numbered(response.follow(answer)) };
}

async function* numbered(events: AsyncGenerator<ResponseEvent>): AsyncGenerator<string> {
  let sequence_number = 0;
  for await (const event of events)
    yield eventFrame(event.type, { ...event, sequence_number: sequence_number++ });
}

/** A request and its response. */
class ResponseInProgress {
  readonly body: ResponseBody;
  readonly request: EndpointRequest;
  readonly #session: EndpointSession;
  readonly #id = `resp_${randomUUID().replaceAll('-', '')}`;
  readonly #createdAt = Math.floor(Date.now() / 1000);
  readonly #output: ResponseOutput;
  readonly #previous: RememberedResponse | undefined;
  readonly #added: { messages: Message[]; callIds: (string | undefined)[] };
  #model: string;

  constructor(session: EndpointSession, body: ResponseBody) {
    const { responses, model } = session;
    this.#session = session;
    this.body = body;
    this.#model = model.name;
    this.#output = new ResponseOutput(this.#id, { encryptedReasoning: Boolean(body.include?.length) });
    const { previous_response_id: previousId, instructions } = body;
    this.#previous = previousId === undefined ? undefined : responses.require(previousId);
    this.#added = readInput(body.input ?? [], responses);
    const before = conversationOf(this.#previous);
    const messages = [...before.messages, ...this.#added.messages];
    const callIds = [...before.callIds, ...this.#added.callIds];
    if (instructions !== undefined) {
      messages.unshift({ role: 'system', content: instructions });
      callIds.unshift(undefined);
    }
    if (messages.length === 0) throw invalid('input', 'is missing. Send at least one item.');
    const prompt = { messages, callIds, mayDropReasoning: true };
    this.request = { ...chatSettings(body), prompt, seed: undefined };
  }

  answer({ completion: { model, usage }, choice, callId }: WholeAnswer) {
    this.#model = model;
    const { finish_reason: finishReason, message } = choice;
    const reply = {
      reasoning: reasoningOf(message),
      text: message.content ?? '',
      calls: message.tool_calls ?? [],
    };
    for (const _ of this.#output.whole(reply, statusOf(finishReason)));
    this.#remember(choice, callId);
    return this.#state({ status: 'answered', finishReason, usage });
  }

  async *follow({ chunks, reply, callId }: StreamedAnswer): AsyncGenerator<ResponseEvent> {
    let hasBegun = false;
    try {
      for await (const chunk of chunks) {
        this.#model = chunk.model;
        if (!hasBegun) {
          hasBegun = true;
          yield { type: 'response.created', response: this.#state({ status: 'in_progress' }) };
          yield { type: 'response.in_progress', response: this.#state({ status: 'in_progress' }) };
        }
        const { delta } = chunk.choices[0] ?? {};
        const reasoning = reasoningOf(delta ?? {});
        if (reasoning) yield* this.#output.reasoning(reasoning);
        if (delta?.content) yield* this.#output.text(delta.content);
        for (const { index, function: called } of delta?.tool_calls ?? []) {
          const call = reply.toolCalls[index];
          if (!call) continue;
          const { name } = call.function;
          yield* this.#output.call(index, { id: call.id, name, delta: called.arguments ?? '' });
        }
      }
      const { choice, usage } = reply.complete();
      const { finish_reason: finishReason } = choice;
      yield* this.#output.end(statusOf(finishReason));
      this.#remember(choice, callId);
      yield {
        type: incompleteReason(finishReason) ? 'response.incomplete' : 'response.completed',
        response: this.#state({ status: 'answered', finishReason, usage }),
      };
    } catch (error) {
      const { code, message, type } = errorBody(error).error;
      yield {
        type: 'response.failed',
        response: this.#state({ status: 'failed', code: code ?? type, message }),
      };
    }
  }

  #state(end: ResponseEnd) {
    const { body } = this;
    const output = end.status === 'in_progress' ? [] : this.#output.items;
    return responseObject(
      { id: this.#id, createdAt: this.#createdAt, model: this.#model, body, output },
      end,
    );
  }

  #remember(choice: Choice, callId: string | undefined): void {
    if (this.body.store === false) return;
    this.#session.responses.keep(this.#id, {
      previous: this.#previous,
      messages: [...this.#added.messages, sampledMessage(choice, { tokenIds: false })],
      callIds: [...this.#added.callIds, callId],
      callId,
      output: this.#output.items,
    });
  }
}

const statusOf = (reason: FinishReason) => (incompleteReason(reason) ? 'incomplete' : 'completed');
