import { type Client, createClient } from '../client/index.ts';
import { ModelHandle, newestStep, type OpenModelOptions, openModel } from '../model/index.ts';
import { RunOptionError } from './errors.ts';

type ModelToOpen = Pick<OpenModelOptions, 'entity' | 'project' | 'name' | 'baseModel'>;

/** A model that is open already, or which one to open (create, where it is new) and on which service. */
export type ModelSource =
  | { model: ModelHandle; client?: Client }
  | { model: ModelToOpen; client: Client }
  | { model: ModelToOpen; baseUrl: string; apiKey: string };

/**
 * The model of a source, pinned to its newest checkpoint.
 * @throws RunOptionError for a handle that is pinned to an older one.
 */
export async function resolveModel(
  source: ModelSource,
  signal: AbortSignal | undefined,
): Promise<ModelHandle> {
  if (source.model instanceof ModelHandle) {
    const { model } = source;
    const newest = await newestStep(model, signal);
    // Jobs train the newest checkpoint, whatever the rollouts sampled from.
    if (model.step !== undefined && model.step !== newest) {
      throw new RunOptionError(
        `"${model.name}" is not the newest checkpoint, which is step ${newest}. Training goes on from the newest: ` +
          `pass \`model.at(${newest})\`, or delete the checkpoints after ${model.step}.`,
      );
    }
    return model.at(newest);
  }
  const client = 'baseUrl' in source ? createClient(source) : source.client;
  if (!client)
    throw new TypeError('A model that is to be opened needs a `client`, or a `baseUrl` and an `apiKey`.');
  return openModel({ client, ...source.model, signal });
}
