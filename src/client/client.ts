import type { Health } from '../contract/index.ts';
import type { Answer } from './call.ts';
import { projectHeaderOf } from './dialect.ts';
import { BadResponseError } from './errors.ts';
import { type ClientOptions, readOptions } from './options.ts';
import { parseAnswer, parserOf } from './parse.ts';
import { openApiDocumentSchema, type ReportedSystemCheck, reportedSystemCheckSchema } from './reported.ts';
import { type CallOptions, type Requester, read } from './requester.ts';
import { ChatCompletions } from './resources/chat.ts';
import { InferenceModels, Models } from './resources/models.ts';
import { SftTrainingJobs, TrainingJobs } from './resources/training-jobs.ts';
import { Uploads } from './resources/uploads.ts';
import { statusError } from './status-error.ts';
import { Transport } from './transport.ts';

/**
 * A service of the interface over HTTP. Every call rejects with a `RequestError` of the class its failure has, or
 * with the reason of the `signal` that ended it. `close()` ends what is in flight; a closed client stays closed.
 *
 * Reads, deletions and POSTs under an idempotency key are repeated after every passing failure, an answer that makes
 * no sense included; chat completions, which have no key, only where the service has not answered them. Where a
 * service knows no keys (`dialect: 'deployed'`), what would make a second thing is repeated only where it cannot have
 * made the first. Pauses grow exponentially, with jitter, and keep to `Retry-After`, up to a minute of it.
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

  /** @throws ClientOptionError */
  constructor(options: ClientOptions) {
    this.#options = { ...options };
    const { address, inferenceAddress, dialect, timeouts, retry, limits } = readOptions(options);
    const { apiKey, project } = options;
    this.#requester = {
      transport: new Transport({
        address,
        headers: {
          accept: 'application/json',
          authorization: `Bearer ${apiKey}`,
          'content-type': 'application/json',
          ...(project !== undefined && { [projectHeaderOf(dialect).toLowerCase()]: project }),
        },
        retry,
        connectTimeoutMs: timeouts.connectTimeoutMs,
        limits,
      }),
      dialect,
      timeoutMs: timeouts.timeoutMs,
      readTimeoutMs: timeouts.readTimeoutMs,
      inferenceAddress,
    };
    this.chat = { completions: new ChatCompletions(this.#requester) };
    this.inferenceModels = new InferenceModels(this.#requester);
    this.models = new Models(this.#requester);
    this.sftTrainingJobs = new SftTrainingJobs(this.#requester);
    this.trainingJobs = new TrainingJobs(this.#requester);
    this.uploads = new Uploads(this.#requester);
  }

  /** What it was made of: enough to make another of the same service, in another thread or process. */
  get options(): Readonly<ClientOptions> {
    return this.#options;
  }

  /** Resolves while the service's process serves. The interface leaves the body open, so it is not looked at. */
  async health(options: CallOptions = {}): Promise<Health> {
    await read(this.#requester, '/health', options, () => undefined);
    return { status: 'ok' };
  }

  /** What works and what does not: a failed check is in the answer, not an error. */
  async systemCheck(options: CallOptions = {}): Promise<ReportedSystemCheck> {
    return read(this.#requester, '/system-check', options, parseSystemCheck, { accept: [503] });
  }

  /** The interface as the service publishes it, in OpenAPI. An addition of ours: other services may have none. */
  async openApi(options: CallOptions = {}): Promise<Record<string, unknown>> {
    return read(this.#requester, '/openapi.json', options, parserOf(openApiDocumentSchema));
  }

  /** Ends the calls in flight with a `ConnectionError` of code `client_closed` and frees the connections. */
  async close(): Promise<void> {
    await this.#requester.transport.close();
  }
}

function parseSystemCheck(answer: Answer): ReportedSystemCheck {
  try {
    return parseAnswer(reportedSystemCheckSchema, answer);
  } catch (error) {
    // A proxy answers with this status too, for a service that it cannot reach.
    const isRefused = answer.facts.status === 503 && error instanceof BadResponseError;
    throw isRefused ? statusError(answer.facts, answer.text, unsaid) : error;
  }
}

const unsaid = { retryAfter: null, date: null, location: null };

/**
 * A client of a service.
 *
 * @throws ClientOptionError where an option cannot be.
 */
export function createClient(options: ClientOptions): Client {
  return new Client(options);
}
