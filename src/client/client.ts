import type { Health } from '../contract/index.ts';
import { isObject } from '../util/json.ts';
import { warn } from '../util/warning.ts';
import type { Answer } from './call.ts';
import { isHtml, isRequestError, RequestError } from './errors.ts';
import type { ClientOptions } from './options.ts';
import { parseAnswer, parserOf } from './parse.ts';
import { openApiDocumentSchema, type ReportedSystemCheck, reportedSystemCheckSchema } from './reported.ts';
import { type CallOptions, Requester } from './requester.ts';
import { ChatCompletions } from './resources/chat.ts';
import { InferenceModels, Models } from './resources/models.ts';
import { SftTrainingJobs, TrainingJobs } from './resources/training-jobs.ts';
import { Uploads } from './resources/uploads.ts';
import { statusError } from './status-error.ts';

/**
 * A client of the service over HTTP. A failed call rejects with a RequestError, an aborted call with the
 * reason of its `signal`. `close()` ends the calls in flight; a closed client cannot be reopened.
 *
 * Reads, deletions and POSTs with an idempotency key are retried after every transient failure, including invalid
 * answers. Chat completions have no key and are retried only if the service did not answer them. If the service has no
 * idempotency keys (`dialect: 'deployed'`), a call that creates something is retried only if the first attempt cannot
 * have created it. Pauses grow exponentially, with jitter, and respect `Retry-After` of up to a minute.
 */
export class Client {
  readonly chat: { readonly completions: ChatCompletions };
  readonly inferenceModels: InferenceModels;
  readonly models: Models;
  readonly sftTrainingJobs: SftTrainingJobs;
  readonly trainingJobs: TrainingJobs;
  readonly uploads: Uploads;
  readonly #requester: Requester;
  readonly #options: ClientOptions;

  /**
   * @param isKnown Whether the service has answered before, so that it is waited for if it is away. Default: false.
   * @throws OptionError
   */
  constructor(options: ClientOptions, isKnown = false) {
    this.#options = { ...options };
    this.#requester = new Requester(options, isKnown);
    this.chat = { completions: new ChatCompletions(this.#requester) };
    this.inferenceModels = new InferenceModels(this.#requester);
    this.models = new Models(this.#requester);
    this.sftTrainingJobs = new SftTrainingJobs(this.#requester);
    this.trainingJobs = new TrainingJobs(this.#requester);
    this.uploads = new Uploads(this.#requester);
  }

  /** The options of this client, to create another one in another thread or process. */
  get options(): Readonly<ClientOptions> {
    return this.#options;
  }

  /**
   * Resolves if the service is running. The body is not checked, because the interface does not define it; but an HTML
   * page comes from something else.
   */
  async health(options: CallOptions = {}): Promise<Health> {
    await this.#requester.read('/health', options, ({ facts }) => {
      if (isHtml(facts.contentType))
        throw new RequestError('bad_response', { ...facts, detail: 'an HTML page' });
    });
    return { status: 'ok' };
  }

  /** The state of the service's components. A failed check is part of the answer, not an error. */
  async systemCheck(options: CallOptions = {}): Promise<ReportedSystemCheck> {
    return this.#requester.read('/system-check', options, parseSystemCheck, { accept: [503] });
  }

  /** The service's OpenAPI document. An extension: other services may not have one. */
  async openApi(options: CallOptions = {}): Promise<Record<string, unknown>> {
    return this.#requester.read('/openapi.json', options, parserOf(openApiDocumentSchema));
  }

  /**
   * Whether the service stores single groups (`models.storeGroup`), also with choices that have what they add to a prompt
   * (`added_prompt_token_ids`), by its OpenAPI document. False without asking for `dialect: 'deployed'`, and for a service
   * without such a document.
   */
  storesGroups(options: CallOptions = {}): Promise<boolean> {
    const choice = ['components', 'schemas', 'Choice', 'properties'];
    const added = [...choice, 'added_prompt_token_ids'];
    return this.#describes([['paths', '/v1/preview/models/{model_id}/groups'], added], options);
  }

  /**
   * Whether replies may have their tokens as lists (`return_token_logprobs`), by the service's OpenAPI document. Otherwise
   * as `storesGroups`.
   */
  returnsTokenLists(options: CallOptions = {}): Promise<boolean> {
    const request = ['components', 'schemas', 'ChatCompletionRequest', 'properties'];
    return this.#describes([[...request, 'return_token_logprobs']], options);
  }

  /** Whether the service's OpenAPI document has something at each path. */
  async #describes(paths: readonly (readonly string[])[], options: CallOptions): Promise<boolean> {
    if (this.#requester.dialect === 'deployed') return false;
    try {
      const document: unknown = await this.openApi(options);
      const at = (found: unknown, name: string) => (isObject(found) ? found[name] : undefined);
      return paths.every((path) => path.reduce(at, document) !== undefined);
    } catch (error) {
      const { code, status } = isRequestError(error) ? error : { code: null, status: null };
      if (code === 'bad_response' || [404, 405, 501].includes(status ?? 0)) return false;
      throw error;
    }
  }

  /** Ends the calls in flight with a RequestError of code `client_closed` and frees the connections. */
  async close(): Promise<void> {
    await this.#requester.transport.close();
  }
}

function parseSystemCheck(answer: Answer): ReportedSystemCheck {
  try {
    return parseAnswer(reportedSystemCheckSchema, answer);
  } catch (error) {
    // A proxy also answers 503 if it cannot reach the service.
    if (answer.facts.status !== 503 || !isRequestError(error, 'bad_response')) throw error;
    throw statusError(answer.facts, answer.text, { retryAfter: null, date: null, location: null });
  }
}

/**
 * Creates a client of a service.
 *
 * @throws OptionError for an invalid option.
 */
export function createClient(options: ClientOptions): Client {
  warnOfOldVariable();
  return new Client(options);
}

let hasWarned = false;

/** Programs once read `MARTINGALE_URL`. A shell that still sets it alone would reach the default address in silence. */
function warnOfOldVariable(): void {
  const { MARTINGALE_URL: old, MARTINGALE_BASE_URL: address } = process.env;
  if (hasWarned || old === undefined || address !== undefined) return;
  hasWarned = true;
  warn(
    'martingale_old_variable',
    'MARTINGALE_URL is set, but has no effect: set MARTINGALE_BASE_URL instead.',
  );
}
