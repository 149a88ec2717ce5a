import { z } from 'zod';
import {
  chatCompletionChunkSchema,
  chatCompletionSchema,
  errorSchema,
  validationErrorSchema,
} from '../../../src/contract/index.ts';
import { problemInDetails } from '../../support/validation-details.ts';

/** No request of these tests should take this long, so a longer wait counts as a hang. */
const deadlineMs = 30_000;

export interface Sent {
  method: string;
  path: string;
  body?: unknown;
  headers?: Record<string, string>;
}

export interface Answered {
  status: number;
  text: string;
}

export interface Target {
  url: string;
  apiKey: string;
}

export async function send(
  { url, apiKey }: Target,
  { method, path, body, headers }: Sent,
): Promise<Answered> {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json', ...headers },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    signal: AbortSignal.timeout(deadlineMs),
  });
  return { status: response.status, text: await response.text() };
}

const plainError = z.strictObject({ detail: z.union([z.string(), z.array(z.unknown())]) });
const openAiError = z.strictObject({
  detail: z.union([z.string(), z.array(z.unknown())]),
  error: z.object({
    message: z.string().min(1),
    type: z.string(),
    param: z.string().nullable(),
    code: z.string(),
  }),
});

/** What is wrong with an error answer to a request with this body, or null. */
export function problemInRefusal(
  { status, text }: Answered,
  { openAi, body: sent }: { openAi: boolean; body: unknown },
): string | null {
  if (status < 400 || status >= 500) return `status ${status}`;
  const body: unknown = JSON.parse(text);
  const details = problemInDetails(body, sent);
  if (details !== null) return details;
  if (!(openAi ? openAiError : plainError).safeParse(body).success) return 'the body has another shape';
  const schema = status === 422 ? validationErrorSchema : errorSchema;
  return schema.safeParse(body).success ? null : 'the body is not what the contract says';
}

/** What is wrong with the answer to a valid chat request, or null. */
export function problemInChat({ status, text }: Answered, request: Record<string, unknown>): string | null {
  if (status !== 200) return `status ${status}`;
  const choices = Number(request.n ?? 1);
  if (request.stream !== true) {
    const completion = chatCompletionSchema.parse(JSON.parse(text));
    const fewer = request.use_beam_search === true && completion.choices.length < choices;
    return completion.choices.length === choices || fewer ? null : `${completion.choices.length} choices`;
  }
  const frames = text.split('\n\n').filter(Boolean);
  if (frames.at(-1) !== 'data: [DONE]') return 'the stream does not end with [DONE]';
  const chunks = frames.slice(0, -1).map((frame) => {
    const data: unknown = JSON.parse(frame.replace(/^data: /, ''));
    return chatCompletionChunkSchema.parse(data);
  });
  const finished = new Set(
    chunks.flatMap((chunk) =>
      chunk.choices.filter((choice) => choice.finish_reason).map(({ index }) => index),
    ),
  );
  const fewer = request.use_beam_search === true && finished.size > 0;
  return finished.size === choices || fewer ? null : `${finished.size} of ${choices} choices finished`;
}
