import { isSystemError } from '../../../util/error.ts';
import { EngineError } from '../../engine.ts';

/** How the Hugging Face hub is called. */
export interface HubOptions {
  /** Default `https://huggingface.co`. */
  hubUrl?: string;
  /** For private repositories and those with terms to accept. */
  accessToken?: string;
  /** Milliseconds without an answer or a byte after which a connection counts as cut. Default 60000. */
  idleTimeoutMs?: number;
  signal?: AbortSignal;
}

export const defaultIdleTimeoutMs = 60_000;

/** The connection of a short answer. */
export function listing({ idleTimeoutMs = defaultIdleTimeoutMs, ...options }: HubOptions) {
  const deadline = AbortSignal.timeout(idleTimeoutMs);
  const signal = options.signal ? AbortSignal.any([options.signal, deadline]) : deadline;
  return connection({ ...options, signal });
}

/** What `@huggingface/hub` takes to call the hub. */
export function connection({ hubUrl, accessToken, signal }: HubOptions) {
  return {
    ...(hubUrl !== undefined && { hubUrl }),
    ...(accessToken !== undefined && { accessToken }),
    fetch: (input: Parameters<typeof fetch>[0], init?: RequestInit) =>
      fetch(input, { ...init, signal: signal ?? null }),
  };
}

/** The hub's answer, or undefined for an error of the connection. */
const statusOf = (error: unknown): number | undefined =>
  error instanceof Error && 'statusCode' in error && typeof error.statusCode === 'number'
    ? error.statusCode
    : undefined;

/** Whether the hub answered that it does not give a file: to ask again is no use. */
export const isRefusal = (error: unknown) => (statusOf(error) ?? 500) < 500;

/** The error for a fetch that failed: of the hub, the connection or the disk. */
export function hubError(
  address: string,
  cause: unknown,
  { hubUrl = 'https://huggingface.co' }: HubOptions,
): EngineError {
  if (EngineError.isInstance(cause)) return cause;
  // Errors of a connection are inside those of `fetch`.
  if (isSystemError(cause))
    return new EngineError('storage_failed', `hf:${address} cannot be stored: ${cause.message}`, { cause });
  const status = statusOf(cause);
  if (status !== undefined && status < 500) {
    const remedy =
      status === 401 || status === 403
        ? 'Accept its terms on the hub and set HF_TOKEN, or check the name'
        : 'Check the name and the revision';
    const answer = cause instanceof Error ? cause.message : cause;
    return new EngineError(
      'hub_refused',
      `hf:${address}: ${hubUrl} answered ${status}: ${answer}. ${remedy}`,
      { cause },
    );
  }
  const reason =
    cause instanceof Error ? (cause.cause instanceof Error ? cause.cause.message : cause.message) : cause;
  const message =
    `hf:${address} cannot be fetched: ${hubUrl} is not reachable (${reason}). ` +
    'Try again, which continues where it stopped, or give the folder of a checkpoint that is here';
  return new EngineError('hub_unreachable', message, { cause });
}
