import { type Health, type SystemCheck, systemCheckSchema } from '../contract/index.ts';
import { parseBaseUrl } from './base-url.ts';
import { type Dialect, projectHeaderOf } from './dialect.ts';
import { ClientOptionError } from './errors.ts';
import { parseAnswer } from './parse.ts';
import { type CallOptions, type Requester, read } from './requester.ts';
import { ChatCompletions } from './resources/chat.ts';
import { InferenceModels } from './resources/inference-models.ts';
import { Models } from './resources/models.ts';
import { SftTrainingJobs } from './resources/sft-training-jobs.ts';
import { TrainingJobs } from './resources/training-jobs.ts';
import { Uploads } from './resources/uploads.ts';
import { Transport } from './transport.ts';

export interface ClientOptions {
  /** Address of the service, with or without `/v1` at its end. */
  baseUrl: string;
  /** Bearer key. */
  apiKey: string;
  /** `team/project`, sent for usage tracking. Default: not sent. */
  project?: string | undefined;
  /** Address that lists the models for inference, where it is another. Default: `baseUrl`. */
  inferenceBaseUrl?: string | undefined;
  /** Names of fields and headers. Default `standard`. */
  dialect?: Dialect | undefined;
  /**
   * Deadline of one attempt of a call in milliseconds, from its start to the last byte of the answer; reads get
   * at most a minute of it. Default 600000.
   */
  timeoutMs?: number | undefined;
  /** How often a call is repeated where a repeat is harmless. Default 5. */
  retries?: number | undefined;
  /** Longest pause before the first repeat in milliseconds; it doubles with each, up to 30 s. Default 500. */
  backoffMs?: number | undefined;
}

/**
 * A service of the interface over HTTP. Every call rejects with a `RequestError` of the class its failure has, or
 * with the reason of the `signal` that ended it. `close()` ends what is in flight; a closed client stays closed.
 */
export class Client {
  readonly chat: { readonly completions: ChatCompletions };
  readonly inferenceModels: InferenceModels;
  readonly models: Models;
  readonly sftTrainingJobs: SftTrainingJobs;
  readonly trainingJobs: TrainingJobs;
  readonly uploads: Uploads;
  readonly #requester: Requester;

  /** @throws ClientOptionError */
  constructor(options: ClientOptions) {
    const address = parseBaseUrl(options.baseUrl, 'baseUrl');
    const dialect = options.dialect ?? 'standard';
    const { apiKey, project } = options;
    if (!/^[\x21-\x7e]+$/.test(apiKey)) {
      throw new ClientOptionError('apiKey is empty or has characters that no header can carry.');
    }
    this.#requester = {
      transport: new Transport({
        address,
        headers: {
          accept: 'application/json',
          authorization: `Bearer ${apiKey}`,
          'content-type': 'application/json',
          ...(project !== undefined && { [projectHeaderOf(dialect).toLowerCase()]: project }),
        },
        retry: { retries: options.retries ?? 5, backoffMs: options.backoffMs ?? 500 },
      }),
      dialect,
      timeoutMs: options.timeoutMs ?? 600_000,
      inferenceAddress:
        options.inferenceBaseUrl === undefined
          ? address
          : parseBaseUrl(options.inferenceBaseUrl, 'inferenceBaseUrl'),
    };
    this.chat = { completions: new ChatCompletions(this.#requester) };
    this.inferenceModels = new InferenceModels(this.#requester);
    this.models = new Models(this.#requester);
    this.sftTrainingJobs = new SftTrainingJobs(this.#requester);
    this.trainingJobs = new TrainingJobs(this.#requester);
    this.uploads = new Uploads(this.#requester);
  }

  /** Resolves while the service's process serves. The interface leaves the body open, so it is not looked at. */
  async health(options: CallOptions = {}): Promise<Health> {
    await read(this.#requester, '/health', options);
    return { status: 'ok' };
  }

  /** What works and what does not: a failed check is in the answer, not an error. */
  async systemCheck(options: CallOptions = {}): Promise<SystemCheck> {
    return parseAnswer(
      systemCheckSchema,
      await read(this.#requester, '/system-check', options, { accept: [503] }),
    );
  }

  /** Ends the calls in flight with a `ConnectionError` of code `client_closed` and frees the connections. */
  async close(): Promise<void> {
    await this.#requester.transport.close();
  }
}

/**
 * A client of a service.
 *
 * @throws ClientOptionError where an option cannot be.
 */
export function createClient(options: ClientOptions): Client {
  return new Client(options);
}
