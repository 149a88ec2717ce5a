import { deserialize, serialize } from 'node:v8';
import { Agent, request } from 'undici';
import type { z } from 'zod';
import { readAnswer } from '../../../util/answers.ts';
import { jsonOf } from '../../../util/json.ts';
import { toFailure } from '../../rollout.ts';
import { findKey } from '../key-file.ts';
import { type Batch, maxBodyBytes } from '../mailbox.ts';
import {
  batchSchema,
  type JoinAnswer,
  type JoinRequest,
  joinAnswerSchema,
  programHeader,
  receivedSchema,
  refusalSchema,
} from '../protocol.ts';
import { WorkerError } from '../worker-error.ts';

interface Sending {
  body: string | Uint8Array;
  timeoutMs: number;
  signal: AbortSignal;
}

/** The program over HTTP. All methods throw WorkerError, or the reason of the signal. */
export class ProgramConnection {
  readonly #base: string;
  readonly #givenKey: string | undefined;
  #key: string | undefined;
  /** No timeouts of its own: a poll has its deadline, and answers may be large. */
  readonly #agent = new Agent({ headersTimeout: 0, bodyTimeout: 0, connect: { timeout: 10_000 } });

  constructor(url: string, key: string | undefined) {
    this.#base = url.replace(/\/+$/, '');
    this.#givenKey = key;
  }

  async join(hello: JoinRequest, signal: AbortSignal): Promise<JoinAnswer> {
    const body = JSON.stringify(hello);
    // A program that was started again has another key.
    this.#key = this.#givenKey ?? (await findKey(this.#base));
    return this.#json(joinAnswerSchema, '/workers', { body, timeoutMs: 30_000, signal });
  }

  /** The next messages, after a while perhaps none. */
  async poll({ worker, pollMs, leaseMs }: JoinAnswer, received: number, signal: AbortSignal): Promise<Batch> {
    const body = JSON.stringify({ received });
    const answer = await this.#post(`/workers/${worker}/poll`, { body, timeoutMs: pollMs + leaseMs, signal });
    return batchSchema.parse(deserialize(answer));
  }

  /** Sends messages, and gives the number of those that have arrived. */
  async send({ worker, leaseMs }: JoinAnswer, batch: Batch, signal: AbortSignal): Promise<number> {
    const sending = { body: serialize(batch), timeoutMs: Math.max(leaseMs, 60_000), signal };
    return (await this.#json(receivedSchema, `/workers/${worker}/messages`, sending)).received;
  }

  close(): Promise<void> {
    return this.#agent.destroy();
  }

  async #json<Schema extends z.ZodType>(
    schema: Schema,
    path: string,
    sending: Sending,
  ): Promise<z.output<Schema>> {
    const text = (await this.#post(path, sending)).toString();
    const parsed = schema.safeParse(jsonOf(text));
    if (parsed.success) return parsed.data;
    throw new WorkerError(
      'program_away',
      `${this.#base}${path} answers, but not as the program of a worker.`,
    );
  }

  async #post(path: string, { body, timeoutMs, signal }: Sending): Promise<Buffer> {
    const deadline = AbortSignal.timeout(timeoutMs);
    let status: number;
    let answer: Buffer;
    let isProgram: boolean;
    try {
      const response = await request(this.#base + path, {
        method: 'POST',
        headers: {
          ...(this.#key === undefined ? {} : { authorization: `Bearer ${this.#key}` }),
          'content-type': typeof body === 'string' ? 'application/json' : 'application/octet-stream',
        },
        body,
        dispatcher: this.#agent,
        signal: AbortSignal.any([signal, deadline]),
      });
      status = response.statusCode;
      isProgram = response.headers[programHeader] !== undefined;
      answer = Buffer.from((await readAnswer(response.body, maxBodyBytes)).buffer);
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      const why = deadline.aborted ? `no answer in ${timeoutMs} ms` : toFailure(error).message;
      throw new WorkerError('program_away', `${this.#base} cannot be reached: ${why}`, { cause: error });
    }
    if (!isProgram)
      throw new WorkerError(
        'program_away',
        `what answers at ${this.#base} (${status}) is not a program with leases(). Give the address that the program prints, not the service's.`,
      );
    if (status === 200) return answer;
    const { code, message } = refusalOf(answer.toString()) ?? {
      code: `status_${status}`,
      message: `it answered ${status}`,
    };
    if (code === 'worker_unknown') throw new WorkerError('worker_unknown', message);
    const isFinal = [401, 403, 409, 413].includes(status);
    throw new WorkerError(
      isFinal ? 'worker_refused' : 'program_away',
      `${this.#base} refuses this worker: ${message}`,
    );
  }
}

const refusalOf = (text: string) => refusalSchema.safeParse(jsonOf(text)).data?.error;
