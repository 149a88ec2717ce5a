import type { Context, Hono } from 'hono';
import { chatCompletionRequestSchema, chatFieldAliases } from '../../contract/index.ts';
import { isObject, parseJson, readText, renameAliases } from '../body.ts';
import type { ServiceContext } from '../context.ts';
import { toErrorBody } from '../error-response.ts';
import { type PreparedChat, prepareChat } from '../inference/chat.ts';
import { complete } from '../inference/complete.ts';
import { stream } from '../inference/stream.ts';
import { refuseUnsupportedFields } from '../inference/unsupported-fields.ts';
import { dataFrame, serverSentEvents } from '../server-sent-events.ts';
import { validate } from '../validation.ts';

export function chatRoutes(app: Hono, service: ServiceContext): void {
  const handle = async (context: Context): Promise<Response> => {
    const body = parseJson(await readText(context, service.bodyLimits.chat));
    const renamed = isObject(body) ? renameAliases(body, chatFieldAliases) : body;
    if (isObject(renamed)) refuseUnsupportedFields(renamed);
    const request = validate(chatCompletionRequestSchema, renamed, 'body');
    const chat = await prepareChat(service, request);
    if (request.stream) return streamed(service, context, chat);
    return context.json(await complete(chat, context.req.raw.signal));
  };
  app.post('/v1/chat/completions', handle);
  app.post('/v1/chat/completions/', handle);
}

function streamed(service: ServiceContext, context: Context, chat: PreparedChat): Response {
  return serverSentEvents(context, async function* (gone) {
    const signal = AbortSignal.any([gone, service.closing]);
    try {
      for await (const chunk of stream(chat, signal)) yield dataFrame(chunk);
      yield 'data: [DONE]\n\n';
    } catch (error) {
      if (gone.aborted) return;
      // The status has gone out; an error chunk is what chat clients look for then.
      yield dataFrame(toErrorBody(error, service.log, { chat: true }).body);
    }
  });
}
