import type { ChatCompletionChunk } from '../../contract/index.ts';
import { errorBody } from '../endpoint-error.ts';
import type { StreamedAnswer } from '../endpoint-model.ts';
import type { EndpointSession } from '../endpoint-session.ts';
import { dataFrame, eventStream } from '../event-stream.ts';
import { answerStreamed, answerWhole } from '../session-call.ts';
import { shownChunk, shownCompletion } from './chat-answer.ts';
import { type ChatAsked, readChatBody } from './chat-body.ts';

/** `POST /v1/chat/completions`. */
export async function answerChat(
  session: EndpointSession,
  body: unknown,
  client: AbortSignal,
): Promise<Response> {
  const asked = readChatBody(body);
  if (!asked.stream) {
    const { completion, choice } = await answerWhole(session, client, asked.request);
    return Response.json(shownCompletion(completion, choice, asked));
  }
  const answer = await answerStreamed(session, client, asked.request);
  return eventStream(frames(answer, asked), answer.abandon);
}

async function* frames({ chunks }: StreamedAnswer, asked: ChatAsked): AsyncGenerator<string> {
  // The end is kept back until the call has been recorded: agents go on as soon as they see it.
  const ending: ChatCompletionChunk[] = [];
  try {
    for await (const chunk of chunks) {
      if (chunk.choices.length === 0 && !asked.includeUsage) continue;
      if (ending.length > 0 || chunk.choices[0]?.finish_reason) ending.push(chunk);
      else yield dataFrame(shownChunk(chunk, asked));
    }
    for (const chunk of ending) yield dataFrame(shownChunk(chunk, asked));
    yield 'data: [DONE]\n\n';
  } catch (error) {
    yield dataFrame(errorBody(error));
  }
}
