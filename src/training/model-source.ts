import { type Client, createClient } from '../client/index.ts';
import { ModelHandle, newestStep, type OpenModelOptions, openModel } from '../model/index.ts';
import { RunOptionError } from './errors.ts';

export type ModelToOpen = Pick<OpenModelOptions, 'entity' | 'project' | 'name' | 'baseModel'>;

/** A model that is open already, or which one to open (create, where it is new) and on which service. */
export type ModelSource =
  | { model: ModelHandle; client?: undefined }
  | { model: ModelToOpen; client: Client }
  | { model: ModelToOpen; baseUrl: string; apiKey: string };

/** @throws RunOptionError where there are two ways to the service, or none. */
export function checkModelSource(source: ModelSource): void {
  if (source.model instanceof ModelHandle) {
    if (!('client' in source && source.client) && !('baseUrl' in source)) return;
    throw new RunOptionError(
      `\`model\` is the handle "${source.model.name}", which has a client of its own. Leave \`client\`, \`baseUrl\` and ` +
        '`apiKey` out, or give the model as `{ project, name, baseModel }`.',
    );
  }
  if ('baseUrl' in source ? source.apiKey : 'client' in source && source.client) return;
  throw noService();
}

const noService = () =>
  new RunOptionError('A model that is to be opened needs a `client`, or a `baseUrl` and an `apiKey`.');

/** The way to the service of a source. */
export function clientOf(source: ModelSource): Client {
  if (source.model instanceof ModelHandle) return source.model.client;
  const client =
    'baseUrl' in source ? createClient({ baseUrl: source.baseUrl, apiKey: source.apiKey }) : source.client;
  if (!client) throw noService();
  return client;
}

/**
 * The model of a source, pinned to its newest checkpoint.
 * @param resuming Whether a handle may be pinned to an older one: that of the run's beginning.
 * @throws RunOptionError for a handle that is pinned to an older one.
 */
export async function resolveModel(
  source: ModelSource,
  { client, signal, resuming }: { client: Client; signal: AbortSignal | undefined; resuming: boolean },
): Promise<ModelHandle> {
  if (source.model instanceof ModelHandle) {
    const { model } = source;
    const newest = await newestStep(model, signal);
    // Jobs train the newest checkpoint, whatever the rollouts sampled from.
    if (!resuming && model.step !== undefined && model.step !== newest) {
      throw new RunOptionError(
        `"${model.name}" is not the newest checkpoint, which is step ${newest}. Training goes on from the newest: ` +
          `pass \`model.at(${newest})\`, or delete the checkpoints after ${model.step}.`,
      );
    }
    return model.at(newest);
  }
  return openModel({ client, ...source.model, signal });
}
