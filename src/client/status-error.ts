import { z } from 'zod';
import { type ValidationIssue, validationIssueSchema } from '../contract/index.ts';
import {
  AuthenticationError,
  type CallFacts,
  ConflictError,
  ContextLengthError,
  NotFoundError,
  PayloadTooLargeError,
  PermissionDeniedError,
  RateLimitError,
  type RequestError,
  RequestRefusedError,
  ServiceError,
  UnprocessableError,
} from './errors.ts';
import { parseRetryAfter } from './retry.ts';

/** Other services omit `input`. */
const issueSchema = validationIssueSchema.extend({ input: z.unknown().default(null) });

const errorBodySchema = z.object({
  detail: z.union([z.string(), z.array(issueSchema)]).optional(),
  error: z.union([z.string(), z.object({ message: z.string(), code: z.unknown().optional() })]).optional(),
  message: z.string().optional(),
});

const longestDetail = 500;

/** Response headers that errors use. */
export interface ErrorHeaders {
  retryAfter: string | null;
  date: string | null;
  location: string | null;
}

/** The error for a response with a status outside 2xx. */
export function statusError(
  facts: Omit<CallFacts, 'detail'> & { status: number },
  body: string,
  { retryAfter, date, location }: ErrorHeaders,
): RequestError {
  if (facts.status >= 300 && facts.status < 400)
    return new RequestRefusedError({ ...facts, detail: `redirects to ${location ?? 'no address'}` });
  const { detail, issues } = readErrorBody(body);
  const retryAfterMs = parseRetryAfter(retryAfter, date);
  const full = { ...facts, detail };
  if (isContextLengthError(facts.status, body)) return new ContextLengthError(full);
  switch (facts.status) {
    case 401:
      return new AuthenticationError(full);
    case 403:
      return new PermissionDeniedError(full);
    case 404:
      return new NotFoundError(full);
    case 409:
      return new ConflictError(full);
    case 413:
      return new PayloadTooLargeError(full);
    case 422:
      return new UnprocessableError(full, issues);
    case 429:
      return new RateLimitError(full, retryAfterMs);
    default:
      return facts.status >= 500 ? new ServiceError(full, retryAfterMs) : new RequestRefusedError(full);
  }
}

/** Messages of vLLM, SGLang and hosted services for a prompt longer than the context. */
const tooLongWords =
  /maximum context length|(?:longer than|exceeds) the model's context length|context window/i;

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
  const parsed = errorBodySchema.safeParse(parseJson(body));
  if (!parsed.success) return { detail: excerpt(body), issues: [] };
  const { detail, error, message } = parsed.data;
  if (Array.isArray(detail)) {
    const lines = detail.map((issue) => `${issue.loc.join('.')}: ${issue.msg}`);
    return { detail: lines.join('; '), issues: detail };
  }
  const { message: said, code } = typeof error === 'object' ? error : { message: error };
  return { detail: detail ?? said ?? message ?? excerpt(body), issues: [], code };
}

/** The beginning of an unparsed body, on one line, for error messages. */
export function excerpt(body: string): string {
  const line = body
    .slice(0, 4 * longestDetail)
    .replace(/\s+/g, ' ')
    .trim();
  if (line === '') return 'an empty body';
  return line.length > longestDetail ? `${line.slice(0, longestDetail)}…` : line;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
