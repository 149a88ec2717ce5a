import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { type Client, createClient, NotFoundError } from '../../client/index.ts';
import { parseModelName } from '../../contract/index.ts';
import { type IfExists, ModelHandle, openModel } from '../../model/index.ts';
import type { RecipeOptions } from './options.ts';
import { serviceFolder, trainingFolder } from './run-directory.ts';

export interface RecipeService {
  client: Client;
  /** Where the service keeps its models; null for one that somebody else runs. */
  dataFolder: string | null;
  close: () => Promise<void>;
}

/** The service of `--base-url`, else one in this process, on a free port of this machine with a key of its own. */
export async function openService(options: RecipeOptions, runDirectory: string): Promise<RecipeService> {
  const { baseUrl, apiKey, threads } = options;
  if (baseUrl !== undefined && apiKey !== undefined) {
    const client = createClient({ baseUrl, apiKey });
    return { client, dataFolder: null, close: () => client.close() };
  }
  // Loaded here: whoever trains elsewhere needs neither, nor the engine's runtime installed.
  const [{ createEmbeddedEngine }, { startService }] = await Promise.all([
    import('../../engines/embedded/index.ts'),
    import('../../service/index.ts'),
  ]);
  const dataFolder = serviceFolder(runDirectory);
  const engine = await createEmbeddedEngine({ threads });
  try {
    const service = await startService({ engine, dataFolder });
    const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
    const close = async () => {
      await client.close();
      await service.close();
      await engine.close();
    };
    return { client, dataFolder, close };
  } catch (error) {
    await engine.close();
    throw error;
  }
}

interface ModelOfRun {
  /** The recipe's, which is also that of the project on the service. */
  name: string;
  seed: number;
  baseModel: string;
  ifExists: IfExists;
  service: RecipeService;
  runDirectory: string;
  signal: AbortSignal;
}

/** The model of a new run: made from the base model, unless the service knows one of its name and `ifExists` says to go on with that. */
export async function openModelOfRun({
  name,
  seed,
  baseModel,
  ifExists,
  service,
  runDirectory,
  signal,
}: ModelOfRun): Promise<ModelHandle> {
  return openModel({
    client: service.client,
    project: name,
    // On a service of many runs, a name of its own; else training would go on from the last run's model.
    name: service.dataFolder === null ? basename(runDirectory) : `seed-${seed}`,
    baseModel,
    ifExists,
    signal,
  });
}

/**
 * The model of a run that goes on. Where the service no longer has it, none is made: `train` refuses the handle of the
 * one that is gone, and says why.
 */
export async function reopenModelOfRun(run: ModelOfRun): Promise<ModelHandle> {
  const { client } = run.service;
  const noted = await readNoted(run.runDirectory);
  if (noted && (await isGone(client, noted.modelId, run.signal)))
    return new ModelHandle({ client, id: noted.modelId, name: noted.model });
  const own = noted && parseModelName(noted.model);
  if (!own) return openModelOfRun({ ...run, ifExists: 'continue' });
  const { entity, project, name } = own;
  return openModel({ client, entity, project, name, baseModel: run.baseModel, signal: run.signal });
}

const notedSchema = z.object({ model: z.string(), modelId: z.string() });

/** The model as the run's record has it; undefined where that cannot be read, which `train` tells of. */
async function readNoted(runDirectory: string): Promise<z.infer<typeof notedSchema> | undefined> {
  const text = await readFile(join(trainingFolder(runDirectory), 'config.json'), 'utf8');
  try {
    return notedSchema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

async function isGone(client: Client, modelId: string, signal: AbortSignal): Promise<boolean> {
  try {
    await client.models.checkpoints.list(modelId, { limit: 1, signal });
    return false;
  } catch (error) {
    if (error instanceof NotFoundError) return true;
    throw error;
  }
}
