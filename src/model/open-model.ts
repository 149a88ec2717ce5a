import { type Client, isRequestError, type RequestError } from '../client/index.ts';
import { formatModelName } from '../contract/index.ts';
import { asThrownBy } from '../util/error.ts';
import { invalidOption } from '../util/option-error.ts';
import { type OptionNames, requireOptions } from '../util/option-names.ts';
import { ModelError } from './model-error.ts';
import { ModelHandle } from './model-handle.ts';

/**
 * What to do if a model with this name exists. `continue`: open it and continue from its newest checkpoint. `error`:
 * throw ModelError of code `model_exists`. `new`: create a model under the next free name of `name-2`, `name-3` and so
 * on; concurrent programs each get their own model.
 */
export type IfExists = 'continue' | 'error' | 'new';

const choices: Readonly<Record<IfExists, true>> = { continue: true, error: true, new: true };

export interface OpenModelOptions {
  client: Client;
  /**
   * Owner of the model.
   *
   * @default the entity of the key
   */
  entity?: string;
  project: string;
  name: string;
  /** Base model that a new model starts from. */
  baseModel: string;
  /**
   * What to do if a model with this name exists.
   *
   * @default 'continue'
   * @example 'new'
   */
  ifExists?: IfExists;
  /**
   * Stops waiting for the service.
   *
   * @default none
   */
  signal?: AbortSignal;
}

const openModelNames = {
  client: 'client',
  entity: 'text',
  project: 'text',
  name: 'text',
  baseModel: 'text',
  ifExists: true,
  signal: 'signal',
} satisfies OptionNames<OpenModelOptions>;

/** Maximum number of names that `new` tries: `name`, and `name-2` to `name-1000`. */
const maxNames = 1000;

/**
 * Creates a model or opens the existing one. The handle is pinned to its newest checkpoint.
 * @throws OptionError; ModelError of code `base_model_mismatch` if the model was created from another base model, and of
 * code `model_exists` if it exists and `ifExists` is `error`, or if `new` finds no free name.
 */
export async function openModel(options: OpenModelOptions): Promise<ModelHandle> {
  try {
    return await openOrCreate(options);
  } catch (error) {
    throw asThrownBy(openModel, error);
  }
}

async function openOrCreate(options: OpenModelOptions): Promise<ModelHandle> {
  requireOptions('openModel()', options, openModelNames, ['client', 'project', 'name', 'baseModel']);
  const { client, entity, project, name, baseModel, ifExists = 'continue', signal } = options;
  checkIfExists(ifExists);
  if (ifExists !== 'continue') return createModel({ ...options, ifExists });
  const model = await client.models
    .create({ entity, project, name, base_model: baseModel, return_existing: true }, { signal })
    .catch(async (cause) => {
      throw isRequestError(cause, 'conflict') ? ((await mismatchOf(options, cause)) ?? cause) : cause;
    });
  // Other services do not compare base models.
  if (model.base_model !== baseModel) {
    throw baseModelMismatch(formatModelName(model), model.base_model, baseModel);
  }
  const handle = new ModelHandle({ client, id: model.id, name: formatModelName(model) });
  return handle.at(await newestStep(handle, signal));
}

/** The error for a conflict that is due to another base model; null if this cannot be determined. */
async function mismatchOf(
  { client, entity, project, name, baseModel, signal }: OpenModelOptions,
  cause: RequestError,
): Promise<ModelError | null> {
  try {
    for await (const model of client.models.list({ limit: 100, signal })) {
      const fullName = formatModelName({ entity: model.entity, project: model.project, name: model.name });
      const isSame = model.project === project && model.name === name && model.base_model !== baseModel;
      // Without an entity the service chose one, and its error message names it.
      if (isSame && (entity === undefined ? cause.detail.includes(fullName) : entity === model.entity))
        return baseModelMismatch(fullName, model.base_model, baseModel, { cause });
    }
  } catch {
    signal?.throwIfAborted();
    // Other services cannot list models; the caller then throws the original error.
  }
  return null;
}

/** @throws OptionError of code `invalid_model_option` for an unknown value. */
export function checkIfExists(ifExists: string): void {
  if (Object.hasOwn(choices, ifExists)) return;
  const remedy = `Pass one of ${Object.keys(choices).join(', ')}.`;
  throw invalidOption('invalid_model_option', 'ifExists', ifExists, remedy);
}

/** Tries names by creating the model. Checking first would let two programs find the same name free. */
async function createModel({
  client,
  entity,
  project,
  name,
  baseModel,
  ifExists,
  signal,
}: OpenModelOptions): Promise<ModelHandle> {
  for (let number = 1; ; number++) {
    const free = number === 1 ? name : `${name}-${number}`;
    try {
      const model = await client.models.create(
        { entity, project, name: free, base_model: baseModel },
        { signal },
      );
      return new ModelHandle({ client, id: model.id, name: formatModelName({ ...model, step: 0 }) });
    } catch (cause) {
      if (!isRequestError(cause, 'conflict')) throw cause;
      if (ifExists === 'error' || number >= maxNames)
        throw modelExists([entity, project, free].filter(Boolean).join('/'), number, { cause });
    }
  }
}

/** Step of the model's newest checkpoint. @throws TypeError for a handle without the service's id. */
export async function newestStep(model: ModelHandle, signal?: AbortSignal): Promise<number> {
  const options = { order: 'desc', limit: 1, signal } as const;
  const page = await model.client.models.checkpoints.list(requireModelId(model), options);
  return page.data[0]?.step ?? 0;
}

/** The service's id of the model. @throws TypeError if the handle has none. */
export function requireModelId(model: ModelHandle): string {
  if (model.id === undefined) {
    throw new TypeError(
      `"${model.name}" was not opened with openModel(), so it can be called but not trained.`,
    );
  }
  return model.id;
}

function baseModelMismatch(
  model: string,
  actual: string,
  requested: string,
  options?: ErrorOptions,
): ModelError {
  return new ModelError(
    'base_model_mismatch',
    `The model "${model}" exists and was created from "${actual}", not from "${requested}". Choose another name, set ` +
      "`ifExists: 'new'` for the next free one, or delete the model.",
    options,
  );
}

/** @param model The last name tried. @param tried Number of names tried. */
function modelExists(model: string, tried: number, options: ErrorOptions): ModelError {
  const what =
    tried === 1
      ? `The model ${model} already exists.`
      : `${tried} models already exist, up to ${model}, and the limit of names is reached.`;
  return new ModelError(
    'model_exists',
    `${what} Pass another \`name\`, or set \`ifExists: 'continue'\` to continue from its newest checkpoint` +
      `${tried === 1 ? ", or `ifExists: 'new'` to use the next free name" : ''}.`,
    options,
  );
}
