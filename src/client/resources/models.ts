import {
  baseModelListSchema,
  type CreateModelRequest,
  type DeleteModelResponse,
  type ForkModelRequest,
  type InferenceModel,
  type LogRequest,
  type LogResponse,
  logResponseSchema,
  type Model,
} from '../../contract/index.ts';
import type { Answer } from '../call.ts';
import { jsonInSlices } from '../json-slices.ts';
import { fetchedBy, type PageList, pageList, parseJson, parserOf } from '../parse.ts';
import {
  reportedDeletionSchema,
  reportedInferenceModelsSchema,
  reportedModelSchema,
  reportedPageSchema,
} from '../reported.ts';
import {
  type CallOptions,
  type IdempotentCallOptions,
  type ListOptions,
  path,
  post,
  type Requester,
  read,
  remove,
} from '../requester.ts';
import { Checkpoints } from './checkpoints.ts';

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
  create(request: CreateModelRequest, options: IdempotentCallOptions = {}): Promise<Model> {
    const posted = { body: JSON.stringify(request), isRepeatable: isTakenWhereItExists(request) };
    return post(this.#requester, '/preview/models', options, parserOf(reportedModelSchema), posted);
  }

  /** Names of the base models that the service trains: what `base_model` of a new model takes. */
  baseModels(options: CallOptions = {}): Promise<string[]> {
    return read(this.#requester, '/preview/base-models', options, parserOf(baseModelListSchema));
  }

  /** The models the key may see. An addition of ours: other services answer 404 or 405. */
  list(options: ListOptions = {}): PageList<Model> {
    const { after, limit, ...call } = options;
    const parse = fetchedBy(parserOf(modelPageSchema));
    return pageList(after, (cursor) =>
      read(this.#requester, '/preview/models', call, parse, { query: { after: cursor, limit } }),
    );
  }

  /** One model. An addition of ours: other services answer 404 or 405. */
  get(modelId: string, options: CallOptions = {}): Promise<Model> {
    return read(this.#requester, path`/preview/models/${modelId}`, options, parserOf(reportedModelSchema));
  }

  /**
   * Makes a model that goes on from a checkpoint of this one, its newest unless `step` says another; `forked_from`
   * of the answer says which. Names as in `create`. An addition of ours: other services answer 404 or 405.
   */
  fork(modelId: string, request: ForkModelRequest = {}, options: IdempotentCallOptions = {}): Promise<Model> {
    const target = path`/preview/models/${modelId}/fork`;
    const posted = { body: JSON.stringify(request), isRepeatable: isTakenWhereItExists(request) };
    return post(this.#requester, target, options, parserOf(reportedModelSchema), posted);
  }

  /**
   * Deletes a model with all its checkpoints. Where the connection broke before the answer was whole, the call is
   * repeated, and ends in `NotFoundError` when it was the first attempt that deleted the model.
   */
  delete(modelId: string, options: CallOptions = {}): Promise<DeleteModelResponse> {
    const parse = parserOf(reportedDeletionSchema);
    return remove(this.#requester, path`/preview/models/${modelId}`, options, parse);
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
    return post(this.#requester, path`/preview/models/${modelId}/log`, options, parseLogged, { body });
  }
}

/** The interface leaves this answer open: any JSON will do, and none. A page of a proxy will not. */
function parseLogged(answer: Answer): LogResponse | null {
  if (answer.text.trim() === '') return null;
  const parsed = logResponseSchema.safeParse(parseJson(answer));
  return parsed.success ? parsed.data : null;
}

/** Without a name the service makes up another each time. */
const isTakenWhereItExists = (request: {
  name?: string | null | undefined;
  return_existing?: boolean | null | undefined;
}) => request.return_existing === true && typeof request.name === 'string';

export class InferenceModels {
  readonly #requester: Requester;

  constructor(requester: Requester) {
    this.#requester = requester;
  }

  /** The models that chat completions can call, base models among them. Asks `inferenceBaseUrl`. */
  async list(options: CallOptions = {}): Promise<InferenceModel[]> {
    const address = this.#requester.inferenceAddress;
    const parse = parserOf(reportedInferenceModelsSchema);
    return (await read(this.#requester, '/models', options, parse, { address })).data;
  }
}
