import {
  baseModelListSchema,
  type CreateModelRequest,
  type ForkModelRequest,
  type InferenceModel,
  type LogRequest,
  type LogResponse,
  logResponseSchema,
  type Model,
  type StoredGroup,
  type TrajectoryGroupBody,
} from '../../contract/index.ts';
import type { Answer } from '../call.ts';
import { isRequestError } from '../errors.ts';
import { jsonInSlices } from '../json-slices.ts';
import { type PageList, parseJson, parserOf } from '../parse.ts';
import {
  reportedDeletionSchema,
  reportedInferenceModelsSchema,
  reportedModelSchema,
  reportedPageSchema,
  reportedStoredGroupSchema,
} from '../reported.ts';
import {
  type CallOptions,
  type IdempotentCallOptions,
  type ListOptions,
  path,
  type Requester,
  Resource,
} from '../requester.ts';
import { mayHaveActed } from '../retry.ts';
import { Checkpoints } from './checkpoints.ts';

const modelPageSchema = reportedPageSchema(reportedModelSchema);

/** What was deleted with a model. The counts are null if the answer that had them was lost. */
export interface ModelDeletion {
  model_id: string;
  deleted_checkpoints: number | null;
  /** Whether a run at a tracking service was deleted. */
  deleted_run: boolean | null;
}

/** Models: `entity/project/name`, each trained from a base model. */
export class Models extends Resource {
  readonly checkpoints: Checkpoints;

  constructor(requester: Requester) {
    super(requester);
    this.checkpoints = new Checkpoints(requester);
  }

  /**
   * Creates a model. If one with the same entity, project and name exists, it throws RequestError of code `conflict`, or with
   * `return_existing` returns that model, whatever its base model is.
   */
  create(request: CreateModelRequest, options: IdempotentCallOptions = {}): Promise<Model> {
    const posted = { body: JSON.stringify(request), isRepeatable: isTakenWhereItExists(request) };
    return this.requester.post('/preview/models', options, parserOf(reportedModelSchema), posted);
  }

  /** Names of the base models that the service can train, for `base_model` of a new model. */
  baseModels(options: CallOptions = {}): Promise<string[]> {
    return this.requester.read('/preview/base-models', options, parserOf(baseModelListSchema));
  }

  /** The models that the key may access. An extension: other services answer 404 or 405. */
  list(options: ListOptions = {}): PageList<Model> {
    return this.requester.pages('/preview/models', options, parserOf(modelPageSchema));
  }

  /** One model. An extension: other services answer 404 or 405. */
  get(modelId: string, options: CallOptions = {}): Promise<Model> {
    return this.requester.read(path`/preview/models/${modelId}`, options, parserOf(reportedModelSchema));
  }

  /**
   * Creates a model that starts from a checkpoint of this one: from `step`, by default the newest. `forked_from` in the
   * answer names the checkpoint. Names work as in `create`. An extension: other services answer 404 or 405.
   */
  fork(modelId: string, request: ForkModelRequest = {}, options: IdempotentCallOptions = {}): Promise<Model> {
    const target = path`/preview/models/${modelId}/fork`;
    const posted = { body: JSON.stringify(request), isRepeatable: isTakenWhereItExists(request) };
    return this.requester.post(target, options, parserOf(reportedModelSchema), posted);
  }

  /**
   * Deletes a model with all its checkpoints. If the answer is lost, the call is retried, and succeeds when the model is
   * gone.
   */
  async delete(modelId: string, options: CallOptions = {}): Promise<ModelDeletion> {
    const parse = parserOf(reportedDeletionSchema);
    try {
      return await this.requester.remove(path`/preview/models/${modelId}`, options, parse);
    } catch (error) {
      if (!isRequestError(error, 'not_found') || !error.earlier.some(mayHaveActed)) throw error;
      return { model_id: modelId, deleted_checkpoints: null, deleted_run: null };
    }
  }

  /**
   * Stores a group of trajectories for jobs and logs of the model, which name it by its id: `groups` in
   * `trainingJobs.create` and `log`. Equal content is the same group. It is kept for a day until it is
   * named, for an hour after that, and while an unfinished job needs it. A choice may have `added_prompt_token_ids` in place of
   * `prompt_token_ids`. An extension: `client.storesGroups()` tells whether the service has it.
   *
   * @throws RequestError of code `unprocessable` or `context_length_exceeded` for what cannot be trained on.
   */
  async storeGroup(
    modelId: string,
    group: TrajectoryGroupBody,
    options: IdempotentCallOptions = {},
  ): Promise<StoredGroup> {
    const body = await jsonInSlices(group, options.signal);
    // The content makes a repeat harmless, so the service need not remember a key for each group.
    const posted = { body, isRepeatable: true, isKeyed: false };
    const parse = parserOf(reportedStoredGroupSchema);
    return this.requester.post(path`/preview/models/${modelId}/groups`, options, parse, posted);
  }

  /**
   * Stores trajectories with a model, without training on them.
   *
   * @returns The amount that was stored; null if the service does not report it.
   */
  async log(
    modelId: string,
    request: Omit<LogRequest, 'model_id'>,
    options: IdempotentCallOptions = {},
  ): Promise<LogResponse | null> {
    const { trajectory_groups, ...rest } = request;
    const head = this.requester.dialect === 'deployed' ? { model_id: modelId, ...rest } : rest;
    const body = await jsonInSlices({ ...head, trajectory_groups }, options.signal);
    return this.requester.post(path`/preview/models/${modelId}/log`, options, parseLogged, { body });
  }
}

/** The interface does not define this answer: any JSON or an empty body is accepted, but not a proxy's page. */
function parseLogged(answer: Answer): LogResponse | null {
  if (answer.text.trim() === '') return null;
  const parsed = logResponseSchema.safeParse(parseJson(answer));
  return parsed.success ? parsed.data : null;
}

/** Whether a retry returns the same model. Without a name the service generates a new one each time. */
const isTakenWhereItExists = (request: {
  name?: string | null | undefined;
  return_existing?: boolean | null | undefined;
}) => request.return_existing === true && typeof request.name === 'string';

export class InferenceModels extends Resource {
  /** The models for chat completions, including base models. The request goes to `inferenceBaseUrl`. */
  async list(options: CallOptions = {}): Promise<InferenceModel[]> {
    const address = this.requester.inferenceAddress;
    const parse = parserOf(reportedInferenceModelsSchema);
    return (await this.requester.read('/models', options, parse, { address })).data;
  }
}
