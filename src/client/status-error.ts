import { z } from 'zod';
import { type ValidationIssue, validationIssueSchema } from '../contract/index.ts';
import { jsonOf } from '../util/json.ts';
import { type CallFacts, isPage, RequestError, type RequestErrorCode } from './errors.ts';
import { parseRetryAfter } from './retry.ts';

/** Other services omit `input`, and write array indices as integers. */
const issueSchema = validationIssueSchema.extend({
  loc: z.array(z.union([z.string(), z.int().transform(String)])),
  input: z.unknown().default(null),
});

const errorBodySchema = z.object({
  detail: z.union([z.string(), z.array(issueSchema)]).optional(),
  error: z.union([z.string(), z.object({ message: z.string(), code: z.unknown().optional() })]).optional(),
  message: z.string().optional(),
});

const maxExcerpt = 500;

/** Response headers that errors use. */
interface ErrorHeaders {
  retryAfter: string | null;
  date: string | null;
  location: string | null;
}

const codes: Readonly<Record<number, RequestErrorCode>> = {
  401: 'authentication_failed',
  403: 'permission_denied',
  404: 'not_found',
  409: 'conflict',
  413: 'payload_too_large',
  422: 'unprocessable',
  429: 'rate_limited',
};

/** The error for a response with a status outside 2xx. */
export function statusError(
  facts: Omit<CallFacts, 'detail'> & { status: number },
  body: string,
  { retryAfter, date, location }: ErrorHeaders,
): RequestError {
  const { status } = facts;
  if (status >= 300 && status < 400)
    return new RequestError('request_refused', {
      ...facts,
      detail: `redirects to ${location ?? 'no address'}`,
    });
  const { detail, issues } = readErrorBody(body);
  if (isContextLengthError(status, body))
    return new RequestError('context_length_exceeded', { ...facts, detail });
  const usual = codes[status] ?? (status >= 500 ? 'service_failed' : 'request_refused');
  // Proxies answer 408 with a page for a service that is there.
  const isOfOthers =
    isPage(facts.contentType) && status !== 408 && ['not_found', 'request_refused'].includes(usual);
  const code = isOfOthers ? 'bad_response' : usual;
  const mayHaveWait = code === 'rate_limited' || code === 'service_failed';
  return new RequestError(
    code,
    { ...facts, detail },
    { issues, retryAfterMs: mayHaveWait ? parseRetryAfter(retryAfter, date) : null },
  );
}

/** Messages of vLLM, SGLang, Anthropic and hosted services for a prompt longer than the context. */
const tooLongWords =
  /maximum context length|(?:longer than|exceeds) the model's context length|context window|prompt is too long/i;

/** Whether a response with this status and body means that the prompt is longer than the model's context. */
export function isContextLengthError(status: number, body: string): boolean {
  if (status !== 400 && status !== 422) return false;
  const { code, detail } = readErrorBody(body);
  return code === 'context_length_exceeded' || (status === 400 && tooLongWords.test(detail));
}

interface ErrorBody {
  detail: string;
  issues: ValidationIssue[];
  /** `error.code` of chat completions, if present. */
  code?: unknown;
}

/** The message of an error's body, on one line, with `issues` if it is a validation error. */
export function readErrorBody(body: string): ErrorBody {
  const parsed = errorBodySchema.safeParse(jsonOf(body));
  if (!parsed.success) return { detail: excerpt(body), issues: [] };
  const { detail, error, message } = parsed.data;
  if (Array.isArray(detail)) {
    const lines = detail.map((issue) => `${issue.loc.join('.')}: ${issue.msg}`);
    return { detail: lines.join('; '), issues: detail };
  }
  const { message: nested, code } = typeof error === 'object' ? error : { message: error };
  return { detail: detail ?? nested ?? message ?? excerpt(body), issues: [], code };
}

/** The beginning of an unparsed body, on one line, for error messages. Of a page of HTML only its title. */
export function excerpt(body: string): string {
  const line = body
    .slice(0, 4 * maxExcerpt)
    .replace(/\s+/g, ' ')
    .trim();
  if (line === '') return 'an empty body';
  if (/^<(?:!doctype html|html|head|body|title|h1)\b/i.test(line)) {
    const [, title] = /<(?:title|h1)\b[^>]*> *([^<]{1,100})/i.exec(line) ?? [];
    const text = title ?? line.replaceAll(/<[^>]*>/g, ' ').slice(0, 100);
    return `a page of HTML, "${text.trim()}"`;
  }
  return line.length > maxExcerpt ? `${line.slice(0, maxExcerpt)}…` : line;
}
