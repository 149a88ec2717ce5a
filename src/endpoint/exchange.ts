import type { IncomingMessage, ServerResponse } from 'node:http';
import { messageOf } from '../util/error.ts';
import { dataFrame, eventStreamHeaders } from '../util/event-stream.ts';
import { EndpointError, type ErrorResponse } from './endpoint-error.ts';

/*
 * Requests and answers of `node:http`, without the web's `Request`, `Response` and streams: these made up a third of the
 * cost of a call, because each needs several streams, header lists and signals.
 */

/** The answer to a request: a value as JSON, or server-sent events, which are produced as the client reads them. */
export type EndpointAnswer = { json: unknown } | { frames: AsyncGenerator<string> };

const maxBody = 64 * 2 ** 20;

const decoder = new TextDecoder('utf-8', { fatal: true });

/** Reads the body as JSON. @throws EndpointError */
export async function readJson(request: IncomingMessage): Promise<unknown> {
  const encoding = request.headers['content-encoding'] ?? 'identity';
  if (encoding !== 'identity')
    throw new EndpointError(
      415,
      'unsupported_encoding',
      `The body has the Content-Encoding ${encoding}. Send it uncompressed.`,
    );
  const bytes = await readBytes(request);
  try {
    return JSON.parse(decoder.decode(bytes));
  } catch (cause) {
    const reason = messageOf(cause);
    throw new EndpointError(400, 'invalid_json', `The body is not JSON in UTF-8: ${reason}`);
  }
}

function readBytes(request: IncomingMessage): Promise<Uint8Array> {
  const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
  const pieces: Buffer[] = [];
  let bytes = 0;
  const add = (piece: Buffer) => {
    bytes += piece.byteLength;
    if (bytes <= maxBody) {
      pieces.push(piece);
      return;
    }
    // Node drops the rest once the request is answered.
    request.off('data', add).pause();
    reject(tooLarge());
  };
  if (Number(request.headers['content-length']) > maxBody) reject(tooLarge());
  else
    request
      .on('data', add)
      .once('end', () => resolve(pieces.length === 1 && pieces[0] ? pieces[0] : Buffer.concat(pieces)))
      // The client disconnected in the middle of its body.
      .once('error', reject);
  return promise;
}

const tooLarge = () => new EndpointError(413, 'body_too_large', `The body is larger than ${maxBody} bytes.`);

export async function writeAnswer(response: ServerResponse, answer: EndpointAnswer): Promise<void> {
  if ('json' in answer) {
    writeJson(response, { status: 200, headers: {}, body: answer.json });
    return;
  }
  response.writeHead(200, eventStreamHeaders);
  for await (const frame of answer.frames) {
    if (!response.write(frame)) await drained(response);
    if (response.closed) return;
  }
  response.end();
}

/** Resolves when the client has read what was written, or has disconnected. */
async function drained(response: ServerResponse): Promise<void> {
  if (response.closed) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  response.once('drain', resolve).once('close', resolve);
  await promise;
  response.off('drain', resolve).off('close', resolve);
}

/** Answers with a value as JSON. */
export function writeJson(response: ServerResponse, { status, headers, body }: ErrorResponse): void {
  const text = JSON.stringify(body);
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    ...headers,
  });
  response.end(text);
}

export const eventFrame = (type: string, data: object) => `event: ${type}\n${dataFrame(data)}`;
