import { type Client, isRequestError } from '../client/index.ts';
import type { ServiceDetail, ServiceJob, ServiceModel, ServiceQuestion, ServiceReply } from './api.ts';
import { askedAs, type Opening } from './opening.ts';
import { ViewError } from './view-error.ts';

const maxModels = 200;
const maxCheckpoints = 50;
const maxJobs = 20;
const answerMs = 120_000;

/** What is shown of a service. Its key stays here. */
export class ServiceViews {
  readonly #client: Client;
  readonly address: string;

  constructor(client: Client, address: string) {
    this.#client = client;
    this.address = address;
  }

  async detail(): Promise<ServiceDetail> {
    return this.#asking(async () => {
      const models: ServiceModel[] = [];
      for await (const { id, entity, project, name, base_model: baseModel } of this.#client.models.list()) {
        if (models.length === maxModels) break;
        const whole = `${entity}/${project}/${name}`;
        models.push({
          name: whole,
          baseModel,
          checkpoints: await this.#checkpoints(id, whole),
          jobs: await this.#jobs(id),
        });
      }
      // Another service may have no such check.
      const check = await this.#client.systemCheck().catch(() => ({}));
      return {
        address: this.address,
        parts: Object.entries(check).map(([name, { success, ...numbers } = { success: false }]) => ({
          name,
          isWell: success,
          text: inWords(numbers),
        })),
        models,
        baseModels: await this.#client.models.baseModels(),
      };
    });
  }

  /** Asks a checkpoint, with the opening of a run. The answer is not recorded. */
  async ask(
    { model, messages, temperature, maxTokens }: ServiceQuestion,
    opening: Opening | null,
  ): Promise<ServiceReply> {
    const signal = AbortSignal.timeout(answerMs);
    const isFirst = messages.every(({ role }) => role !== 'assistant');
    return this.#asking(async () => {
      const body = {
        model,
        messages: [...(opening?.messages ?? []), ...messages],
        temperature,
        max_completion_tokens: maxTokens,
        ...(opening ? askedAs(opening, { isFirst }) : {}),
      };
      const {
        choices,
        model: answered,
        usage,
      } = await this.#client.chat.completions.create(body, { signal });
      const [choice] = choices;
      const { content, reasoning_content: reasoning, tool_calls: calls } = choice?.message ?? {};
      return {
        message: {
          role: 'assistant',
          content: content ?? null,
          ...(calls?.length ? { tool_calls: calls } : {}),
        },
        reasoning: reasoning ?? null,
        finish: choice?.finish_reason ?? 'unknown',
        sampledTokens: usage?.completion_tokens ?? 0,
        model: answered,
      };
    });
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  async #checkpoints(id: string, model: string): Promise<ServiceModel['checkpoints']> {
    const checkpoints: ServiceModel['checkpoints'] = [];
    for await (const { step, metrics } of this.#client.models.checkpoints.list(id, { order: 'desc' })) {
      if (checkpoints.length === maxCheckpoints) break;
      checkpoints.push({ step, name: `${model}:step${step}`, metrics });
    }
    return checkpoints;
  }

  async #jobs(model: string): Promise<ServiceJob[]> {
    const jobs: ServiceJob[] = [];
    try {
      for await (const job of this.#client.trainingJobs.list(model, { order: 'desc' })) {
        if (jobs.length === maxJobs) break;
        const { id, kind, status, step, created_at: created, started_at: started, ended_at: ended } = job;
        jobs.push({
          id,
          kind: kind ?? 'job',
          status: status ?? 'unknown',
          step: step ?? null,
          created: created ?? null,
          seconds: started && ended ? (Date.parse(ended) - Date.parse(started)) / 1000 : null,
          error: job.error_message ?? null,
        });
      }
    } catch (error) {
      // Services of other makers do not list jobs.
      if (!isRequestError(error) || ![404, 405, 501].includes(error.status ?? 0)) throw error;
    }
    return jobs;
  }

  async #asking<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (cause) {
      if (!isRequestError(cause)) throw cause;
      throw new ViewError('service_failed', `The service ${this.address}: ${cause.message}`, { cause });
    }
  }
}

/** `2.2 ms, in hand 3, oldest 120 ms`: the numbers that a part of the service reports. */
const inWords = (numbers: Readonly<Record<string, unknown>>): string =>
  Object.entries(numbers)
    .flatMap(([name, value]) => {
      if (typeof value === 'string') return [`${name.replaceAll('_', ' ')} ${value}`];
      if (typeof value !== 'number') return [];
      const rounded = Math.round(value * 10) / 10;
      if (name === 'duration') return [`${rounded} ms`];
      const [, what] = /^(.*)_ms$/.exec(name) ?? [];
      return [what === undefined ? `${name.replaceAll('_', ' ')} ${rounded}` : `${what} ${rounded} ms`];
    })
    .join(', ');
