import type { Client } from '../client/index.ts';
import { formatModelName } from '../contract/index.ts';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import { BaseModelMismatchError } from './errors.ts';
import { ModelHandle } from './model-handle.ts';

export interface OpenModelOptions {
  client: Client;
  /** Default: the entity of the key. */
  entity?: string;
  project: string;
  name: string;
  /** Name of the base model the model starts from, when it does not exist yet. */
  baseModel: string;
  signal?: AbortSignal;
}

const openModelNames = {
  client: true,
  entity: true,
  project: true,
  name: true,
  baseModel: true,
  signal: true,
} satisfies OptionNames<OpenModelOptions>;

/**
 * Creates the model, or takes the one of that name; the handle is pinned to its newest checkpoint.
 * @throws BaseModelMismatchError where the model exists and was made from another base model.
 */
export async function openModel(options: OpenModelOptions): Promise<ModelHandle> {
  checkOptionNames('openModel()', options, openModelNames);
  const { client, entity, project, name, baseModel, signal } = options;
  const model = await client.models.create(
    { entity, project, name, base_model: baseModel, return_existing: true },
    { signal },
  );
  if (model.base_model !== baseModel) {
    throw new BaseModelMismatchError(formatModelName(model), model.base_model, baseModel);
  }
  const handle = new ModelHandle({ client, id: model.id, name: formatModelName(model) });
  return handle.at(await newestStep(handle, signal));
}

/** Step of the model's newest checkpoint. @throws TypeError for a handle without the service's id. */
export async function newestStep(model: ModelHandle, signal?: AbortSignal): Promise<number> {
  const options = { order: 'desc', limit: 1, signal } as const;
  const page = await model.client.models.checkpoints.list(requireModelId(model), options);
  return page.data[0]?.step ?? 0;
}

/** The service's id of the model. @throws TypeError where the handle has none. */
export function requireModelId(model: ModelHandle): string {
  if (model.id === undefined) {
    throw new TypeError(
      `"${model.name}" was not opened with openModel(), so it can be called but not trained.`,
    );
  }
  return model.id;
}
