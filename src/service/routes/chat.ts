import { context as activeContext } from '@opentelemetry/api';
import type { Context } from 'hono';
import { Deadline } from '../../util/deadline.ts';
import { dataFrame, doneFrame } from '../../util/event-stream.ts';
import { accessOf } from '../access.ts';
import { readBody } from '../bodies/body-pieces.ts';
import type { ServiceContext } from '../context.ts';
import { errorFor, toErrorBody } from '../faults.ts';
import { exchangeOf } from '../http/exchange.ts';
import { chatText } from '../inference/chat-request.ts';
import { type PreparedChat, prepareChat } from '../inference/prepare-chat.ts';
import { complete, completionJson } from '../inference/reply/complete.ts';
import { stream } from '../inference/reply/stream.ts';
import { operations } from '../openapi/operations.ts';
import { serverSentEvents } from '../server-sent-events.ts';
import { traceInference, traceStreamed } from '../telemetry.ts';
import type { Register } from './route.ts';

/** A chat request from its admission to its answer. */
export function chatRoutes(on: Register, service: ServiceContext): void {
  const handle = async (context: Context): Promise<Response> => {
    const access = accessOf(context);
    const admitted = service.admission.chat(access.tenant);
    let isStreamed = false;
    try {
      const signal = exchangeOf(context).signalWhileNeeded();
      const caller = { tenant: access.tenant, signal };
      const limit = service.bodyLimits.chat;
      const request = await readBody(context, chatText, { limit, count: admitted, caller });
      admitted.replies(request.n ?? 1);
      const chat = await prepareChat(service, request, { access, caller });
      logRequest(service, chat);
      isStreamed = request.stream ?? false;
      if (isStreamed) return streamed(service, context, chat, admitted.release);
      const completion = await traceInference(chat.head.model, () => complete(service.engine, chat, signal));
      const json = await completionJson(completion);
      return new Response(json, { headers: { 'content-type': 'application/json' } });
    } finally {
      // A stream releases its slots when it ends.
      if (!isStreamed) admitted.release();
    }
  };
  on(operations.createChatCompletion, handle);
  on(operations.createChatCompletionSlash, handle);
}

function streamed(
  service: ServiceContext,
  context: Context,
  chat: PreparedChat,
  ended: () => void,
): Response {
  const { requestId } = exchangeOf(context);
  const parent = activeContext.active();
  const frames = async function* (disconnected: AbortSignal) {
    const ending = new Deadline(Number.POSITIVE_INFINITY, service.closing);
    disconnected.addEventListener('abort', () => ending.abort(disconnected.reason));
    if (disconnected.aborted) ending.abort(disconnected.reason);
    const traced = traceStreamed(chat.head.model, parent);
    try {
      for await (const chunks of stream(service.engine, chat, ending)) yield chunks.map(dataFrame).join('');
      yield doneFrame;
    } catch (error) {
      traced.reject(error);
      if (disconnected.aborted) return;
      // The status is sent already; chat clients look for an error chunk instead.
      yield dataFrame(toErrorBody(errorFor(error, service.log, requestId), { openAi: true }));
    } finally {
      traced.resolve();
      ending.clear();
    }
  };
  return serverSentEvents(context, frames, { log: service.log, ended });
}

function logRequest({ log }: ServiceContext, { request, head }: PreparedChat): void {
  const { user, safety_identifier, prompt_cache_key, metadata } = request;
  log({
    level: 'info',
    event: 'chat_requested',
    id: head.id,
    model: head.model,
    choices: request.n ?? 1,
    ...(user === undefined ? {} : { user }),
    ...(safety_identifier === undefined ? {} : { safety_identifier }),
    ...(prompt_cache_key === undefined ? {} : { prompt_cache_key }),
    ...(metadata === undefined ? {} : { metadata: JSON.stringify(metadata) }),
  });
}
