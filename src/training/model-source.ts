import { z } from 'zod';
import { type Client, createClient } from '../client/index.ts';
import { parseModelName } from '../contract/index.ts';
import { checkIfExists, ModelHandle, newestStep, type OpenModelOptions, openModel } from '../model/index.ts';
import { invalidRunOption, runOptionError } from './errors.ts';

export type ModelToOpen = Pick<OpenModelOptions, 'entity' | 'project' | 'name' | 'baseModel' | 'ifExists'>;

/** A model that is open already, or which one to open (create, where it is new) and on which service. */
export type ModelSource =
  | { model: ModelHandle; client?: undefined }
  | { model: ModelToOpen; client: Client }
  | { model: ModelToOpen; baseUrl: string; apiKey: string };

/** @throws OptionError where there are two ways to the service, or none. */
export function checkModelSource(source: ModelSource): void {
  if (source.model instanceof ModelHandle) {
    if (!('client' in source && source.client) && !('baseUrl' in source)) return;
    throw runOptionError(
      'model',
      `\`model\` is the handle "${source.model.name}", which has a client of its own. Leave \`client\`, \`baseUrl\` and ` +
        '`apiKey` out, or give the model as `{ project, name, baseModel }`.',
    );
  }
  checkModelToOpen(source.model);
  if (source.model.ifExists !== undefined) checkIfExists(source.model.ifExists);
  if ('baseUrl' in source ? source.apiKey : 'client' in source && source.client) return;
  throw noService();
}

/** For callers whom no type has checked. */
function checkModelToOpen(model: unknown): void {
  const remedy = 'Give one of `openModel()`, or which to open: `{ project, name, baseModel }`.';
  if (typeof model !== 'object' || model === null) throw invalidRunOption('model', model, remedy);
  for (const field of ['project', 'name', 'baseModel']) {
    const value: unknown = Reflect.get(model, field);
    if (typeof value !== 'string') throw invalidRunOption(`model.${field}`, value, remedy);
  }
}

const noService = () =>
  runOptionError('client', 'A model that is to be opened needs a `client`, or a `baseUrl` and an `apiKey`.');

/** The way to the service of a source. */
export function clientOf(source: ModelSource): Client {
  if (source.model instanceof ModelHandle) return source.model.client;
  const client =
    'baseUrl' in source ? createClient({ baseUrl: source.baseUrl, apiKey: source.apiKey }) : source.client;
  if (!client) throw noService();
  return client;
}

/** What `config.json` has of the model that was asked for; null for a handle. */
export const modelAskedOf = ({ model }: ModelSource): ModelToOpen | null =>
  model instanceof ModelHandle ? null : { ...model };

const askedSchema = z.object({ project: z.string(), name: z.string() });

/** The model of a run that goes on, which may have another name than was asked for: `ifExists: 'new'` gave it one. */
function modelOfRun(model: ModelToOpen, { model: ran, modelAsked }: RunToResume): ModelToOpen {
  const own = parseModelName(String(ran));
  const { data: asked = own } = askedSchema.safeParse(modelAsked);
  const isOwn = [own, asked].some((name) => name?.project === model.project && name?.name === model.name);
  if (!own || !isOwn || (model.entity ?? own.entity) !== own.entity)
    return { ...model, ifExists: 'continue' };
  const { entity, project, name } = own;
  return { entity, project, name, baseModel: model.baseModel, ifExists: 'continue' };
}

/** What `config.json` has of a run that goes on. */
interface RunToResume {
  model?: unknown;
  modelAsked?: unknown;
}

/**
 * The model of a source, pinned to its newest checkpoint.
 * @param was The run that is resumed: its model is opened, whatever `ifExists` says, and a handle may be pinned to an
 * older checkpoint, that of the run's beginning.
 * @throws OptionError for a handle that is pinned to an older one, and what `openModel` throws.
 */
export async function resolveModel(
  source: ModelSource,
  { client, signal, was }: { client: Client; signal: AbortSignal | undefined; was: RunToResume | undefined },
): Promise<ModelHandle> {
  if (source.model instanceof ModelHandle) {
    const { model } = source;
    const newest = await newestStep(model, signal);
    // Jobs train the newest checkpoint, whatever the rollouts sampled from.
    if (!was && model.step !== undefined && model.step !== newest) {
      throw runOptionError(
        'model',
        `"${model.name}" is not the newest checkpoint, which is step ${newest}. Training goes on from the newest: ` +
          `pass \`model.at(${newest})\`, or delete the checkpoints after ${model.step}.`,
      );
    }
    return model.at(newest);
  }
  return openModel({ client, ...(was ? modelOfRun(source.model, was) : source.model), signal });
}
