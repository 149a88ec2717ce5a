import { context as activeContext } from '@opentelemetry/api';
import type { Context } from 'hono';
import { accessOf, tenantOf } from '../access.ts';
import type { AdmittedChat } from '../admission/admission.ts';
import { readBytes } from '../bodies/json-body.ts';
import type { ServiceContext } from '../context.ts';
import { toErrorBody } from '../error-response.ts';
import { type PreparedChat, prepareChat } from '../inference/chat.ts';
import { complete, completionJson } from '../inference/reply/complete.ts';
import { stream } from '../inference/reply/stream.ts';
import { exactSeed } from '../inference/request-checks.ts';
import { operations } from '../openapi/operations.ts';
import { requestIdOf } from '../request-headers.ts';
import { dataFrame, serverSentEvents } from '../server-sent-events.ts';
import { traceInference, traceStreamed } from '../telemetry.ts';
import { wireOf } from '../wire/wire.ts';
import { readChatRequest } from './chat-request.ts';
import type { Register } from './route.ts';

export function chatRoutes(on: Register, service: ServiceContext): void {
  const handle = async (context: Context): Promise<Response> => {
    const place = service.admission.chat(tenantOf(context));
    let isStreamed = false;
    try {
      const wanted = wireOf(context).whileWanted();
      const chat = await read(service, context, { place, wanted });
      isStreamed = chat.request.stream ?? false;
      if (isStreamed) return streamed(service, context, chat, place.release);
      const { pinnedName } = chat.model;
      const completion = await traceInference(pinnedName, () => complete(chat, wanted));
      return context.body(await completionJson(completion), 200, { 'content-type': 'application/json' });
    } finally {
      if (!isStreamed) place.release();
    }
  };
  on(operations.createChatCompletion, handle);
  on(operations.createChatCompletionSlash, handle);
}

async function read(
  service: ServiceContext,
  context: Context,
  { place, wanted }: { place: AdmittedChat; wanted: AbortSignal },
): Promise<PreparedChat> {
  const content = await readBytes(context, service.bodyLimits.chat, place);
  const request = await readChatRequest(content);
  place.replies(request.n ?? 1);
  const chat = await prepareChat(service, request, {
    access: accessOf(context),
    seed: await exactSeed(content, request.seed),
    signal: wanted,
  });
  logRequest(service, chat);
  return chat;
}

function streamed(
  service: ServiceContext,
  context: Context,
  chat: PreparedChat,
  ended: () => void,
): Response {
  const requestId = requestIdOf(context);
  const parent = activeContext.active();
  const frames = async function* (gone: AbortSignal) {
    const signal = AbortSignal.any([gone, service.closing]);
    try {
      for await (const chunk of traceStreamed(chat.model.pinnedName, stream(chat, signal), parent))
        yield dataFrame(chunk);
      yield 'data: [DONE]\n\n';
    } catch (error) {
      if (gone.aborted) return;
      // The status is sent already; chat clients look for an error chunk instead.
      yield dataFrame(toErrorBody(error, service.log, { openAi: true, requestId }).body);
    }
  };
  return serverSentEvents(context, frames, { log: service.log, ended });
}

function logRequest({ log }: ServiceContext, { id, request, model, choices }: PreparedChat): void {
  const { user, safety_identifier, prompt_cache_key, metadata } = request;
  log({
    level: 'info',
    event: 'chat_requested',
    ...{ id, model: model.pinnedName, choices },
    ...(user === undefined ? {} : { user }),
    ...(safety_identifier === undefined ? {} : { safety_identifier }),
    ...(prompt_cache_key === undefined ? {} : { prompt_cache_key }),
    ...(metadata === undefined ? {} : { metadata: JSON.stringify(metadata) }),
  });
}
