import { z } from 'zod';
import { type Client, createClient } from '../client/index.ts';
import { parseModelName, withoutStep } from '../contract/index.ts';
import { checkIfExists, ModelHandle, newestStep, type OpenModelOptions, openModel } from '../model/index.ts';
import { RunError } from '../util/run-error.ts';
import { invalidRunOption, runOptionError } from './errors.ts';

export type ModelToOpen = Pick<OpenModelOptions, 'entity' | 'project' | 'name' | 'baseModel' | 'ifExists'>;

/** An open model, or the model to open (or create) and its service. */
export type ModelSource =
  | { model: ModelHandle; client?: undefined }
  | { model: ModelToOpen; client: Client }
  | { model: ModelToOpen; baseUrl: string; apiKey: string };

/** @throws OptionError if both a client and a service address are set, or neither is, or the model is invalid. */
export function checkModelSource(source: ModelSource): void {
  if (source.model instanceof ModelHandle) {
    if (!('client' in source && source.client) && !('baseUrl' in source)) return;
    throw runOptionError(
      'model',
      `\`model\` is the handle "${source.model.name}", which has its own client. Remove \`client\`, \`baseUrl\` and ` +
        '`apiKey`, or pass the model as `{ project, name, baseModel }`.',
    );
  }
  checkModelToOpen(source.model);
  if (source.model.ifExists !== undefined) checkIfExists(source.model.ifExists);
  if ('baseUrl' in source ? source.apiKey : 'client' in source && source.client) return;
  throw noService();
}

/** For callers without type checks. */
function checkModelToOpen(model: unknown): void {
  const remedy = 'Pass a model created by `openModel()`, or the one to open: `{ project, name, baseModel }`.';
  if (typeof model !== 'object' || model === null) throw invalidRunOption('model', model, remedy);
  for (const field of ['project', 'name', 'baseModel']) {
    const value: unknown = Reflect.get(model, field);
    if (typeof value !== 'string') throw invalidRunOption(`model.${field}`, value, remedy);
  }
}

const noService = () =>
  runOptionError('client', 'To open a model, pass a `client`, or a `baseUrl` and an `apiKey`.');

/** The client for the service of a model source. */
export function clientOf(source: ModelSource): Client {
  if (source.model instanceof ModelHandle) return source.model.client;
  const client =
    'baseUrl' in source ? createClient({ baseUrl: source.baseUrl, apiKey: source.apiKey }) : source.client;
  if (!client) throw noService();
  return client;
}

/** The requested model, for `config.json`; null for a handle. */
export const requestedModelOf = ({ model }: ModelSource): ModelToOpen | null =>
  model instanceof ModelHandle ? null : { ...model };

const requestedSchema = z.object({ project: z.string(), name: z.string() });

/**
 * The model of a resumed run. Its name may differ from the requested one, because `ifExists: 'new'` chose another.
 * @throws RunError if another model is requested: opening it would create it.
 */
function modelOfRun(model: ModelToOpen, { model: ran, modelAsked }: RunToResume): ModelToOpen {
  const own = parseModelName(String(ran));
  const { data: requested = own } = requestedSchema.safeParse(modelAsked);
  const isOwn = [own, requested].some((name) => name?.project === model.project && name?.name === model.name);
  // A run of an earlier version may not say which model it trains.
  if (!own) return { ...model, ifExists: 'continue' };
  if (!isOwn || (model.entity ?? own.entity) !== own.entity)
    throw new RunError(
      'resume_refused',
      `The run trains ${withoutStep(String(ran))}, and \`model\` is ` +
        `${[model.entity, model.project, model.name].filter(Boolean).join('/')}. Resume with the model of the run, or start ` +
        'another run.',
    );
  const { entity, project, name } = own;
  return { entity, project, name, baseModel: model.baseModel, ifExists: 'continue' };
}

/** Fields of `config.json` of a resumed run. */
interface RunToResume {
  model?: unknown;
  modelAsked?: unknown;
}

/**
 * Opens the model of a source, pinned to its newest checkpoint.
 * @param saved Config of the resumed run. With it, `ifExists` is ignored, and a handle may be pinned to an older
 * checkpoint, because the run may have begun there.
 * @throws OptionError if a handle of a new run is pinned to an older checkpoint; RunError if the resumed run trains
 * another model; any error of `openModel`.
 */
export async function resolveModel(
  source: ModelSource,
  {
    client,
    signal,
    saved,
  }: { client: Client; signal: AbortSignal | undefined; saved: RunToResume | undefined },
): Promise<ModelHandle> {
  if (source.model instanceof ModelHandle) {
    const { model } = source;
    const newest = await newestStep(model, signal);
    // Jobs always train the newest checkpoint, even if rollouts sampled from an older one.
    if (!saved && model.step !== undefined && model.step !== newest) {
      throw runOptionError(
        'model',
        `"${model.name}" is not the newest checkpoint, which is step ${newest}. Training continues from the newest: ` +
          `pass \`model.at(${newest})\`, or delete the checkpoints after ${model.step}.`,
      );
    }
    return model.at(newest);
  }
  return openModel({ client, ...(saved ? modelOfRun(source.model, saved) : source.model), signal });
}
