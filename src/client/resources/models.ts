import {
  type CreateModelRequest,
  type DeleteModelResponse,
  type ForkModelRequest,
  type LogRequest,
  type LogResponse,
  logResponseSchema,
  type Model,
} from '../../contract/index.ts';
import { jsonInSlices } from '../json-slices.ts';
import { type PageList, pageList } from '../page-list.ts';
import { parseAnswer } from '../parse.ts';
import { reportedDeletionSchema, reportedModelSchema, reportedPageSchema } from '../reported.ts';
import {
  type CallOptions,
  type IdempotentCallOptions,
  path,
  post,
  type Requester,
  read,
  remove,
} from '../requester.ts';
import { Checkpoints } from './checkpoints.ts';

export interface ListOptions extends CallOptions {
  /** Id of the last item already seen; the list goes on behind it. */
  after?: string | undefined;
  /** Items of a page, 1 to 100. Default 20. */
  limit?: number | undefined;
}

const modelPageSchema = reportedPageSchema(reportedModelSchema);

/** Models: `entity/project/name`, each trained from a base model. */
export class Models {
  readonly checkpoints: Checkpoints;
  readonly #requester: Requester;

  constructor(requester: Requester) {
    this.#requester = requester;
    this.checkpoints = new Checkpoints(requester);
  }

  /**
   * Makes a model. Throws `ConflictError` where one of that entity, project and name exists, unless
   * `return_existing` is true: then it is that model, whatever base model it was made from.
   */
  async create(request: CreateModelRequest, options: IdempotentCallOptions = {}): Promise<Model> {
    const answer = await post(this.#requester, '/preview/models', JSON.stringify(request), options);
    return parseAnswer(reportedModelSchema, answer);
  }

  /** The models the key may see. An addition of ours: other services answer 404 or 405. */
  list(options: ListOptions = {}): PageList<Model> {
    const { after, limit, ...call } = options;
    return pageList(after, async (cursor) => {
      const query = { after: cursor, limit };
      const answer = await read(this.#requester, '/preview/models', call, { query });
      return { page: parseAnswer(modelPageSchema, answer), facts: answer.facts };
    });
  }

  /** One model. An addition of ours: other services answer 404 or 405. */
  async get(modelId: string, options: CallOptions = {}): Promise<Model> {
    return parseAnswer(
      reportedModelSchema,
      await read(this.#requester, path`/preview/models/${modelId}`, options),
    );
  }

  /**
   * Makes a model that goes on from a checkpoint of this one, its newest unless `step` says another; `forked_from`
   * of the answer says which. Names as in `create`. An addition of ours: other services answer 404 or 405.
   */
  async fork(
    modelId: string,
    request: ForkModelRequest = {},
    options: IdempotentCallOptions = {},
  ): Promise<Model> {
    const target = path`/preview/models/${modelId}/fork`;
    const answer = await post(this.#requester, target, JSON.stringify(request), options);
    return parseAnswer(reportedModelSchema, answer);
  }

  /**
   * Deletes a model with all its checkpoints. Where the connection broke before the answer was whole, the call is
   * repeated, and ends in `NotFoundError` when it was the first attempt that deleted the model.
   */
  async delete(modelId: string, options: CallOptions = {}): Promise<DeleteModelResponse> {
    const answer = await remove(this.#requester, path`/preview/models/${modelId}`, options);
    return parseAnswer(reportedDeletionSchema, answer);
  }

  /**
   * Keeps trajectories with a model, without training on them.
   *
   * @returns How much was taken; null from a service that does not say.
   */
  async log(
    modelId: string,
    request: Omit<LogRequest, 'model_id'>,
    options: IdempotentCallOptions = {},
  ): Promise<LogResponse | null> {
    const { trajectory_groups, ...rest } = request;
    const head = this.#requester.dialect === 'deployed' ? { model_id: modelId, ...rest } : rest;
    const body = await jsonInSlices(head, 'trajectory_groups', trajectory_groups, options.signal);
    const answer = await post(this.#requester, path`/preview/models/${modelId}/log`, body, options);
    if (answer.text.trim() === '') return null;
    const parsed = logResponseSchema.safeParse(parseAnswerLoosely(answer.text));
    return parsed.success ? parsed.data : null;
  }
}

/** The interface leaves the body of this answer open, so nothing in it is a fault. */
function parseAnswerLoosely(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
