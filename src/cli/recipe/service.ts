import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { type Client, createClient, isRequestError } from '../../client/index.ts';
import { parseModelName } from '../../contract/index.ts';
import { type IfExists, ModelHandle, openModel } from '../../model/index.ts';
import type { ServiceLog } from '../../service/index.ts';
import { checkpointsOf, describeCheckpoints, showFetch } from '../checkpoint-flags.ts';
import { openClient } from '../open-client.ts';
import type { RecipeOptions } from './options.ts';
import { runOptionError, serviceFolder, trainingFolder } from './run-directory.ts';

export interface RecipeService {
  client: Client;
  /** Data folder of the service; null with `--base-url`. */
  dataFolder: string | null;
  /** The base model of the run. */
  baseModel: string;
  /** A line for each checkpoint that the service of this process has opened. */
  opened: string[];
  close: () => Promise<void>;
}

interface ServiceOfRun {
  options: RecipeOptions;
  runDirectory: string;
  /** The recipe's base model, for a run without `--base-model` and `--checkpoint`. */
  defaultBaseModel: string;
  /** Gets a line for the user. */
  note: (line: string) => void;
  signal: AbortSignal;
}

/**
 * The service of `--base-url`; else a new one in this process, on a free local port with its own key.
 * Rejects with the signal's reason when aborted.
 * @throws OptionError if the own service has no such base model; RequestError if nothing answers at `--base-url`.
 */
export async function openService({
  options,
  runDirectory,
  defaultBaseModel,
  note,
  signal,
}: ServiceOfRun): Promise<RecipeService> {
  const { baseUrl, apiKey, threads, trainingMemory, device } = options;
  if (baseUrl !== undefined && apiKey !== undefined) {
    const client = await openClient({ baseUrl, apiKey, note }, signal);
    const baseModel = options.baseModel ?? defaultBaseModel;
    return { client, dataFolder: null, baseModel, opened: [], close: () => client.close() };
  }
  // Loaded here: with `--base-url` neither is needed, and the engine's runtime need not be installed.
  const [{ createEmbeddedEngine }, { startService }] = await Promise.all([
    import('../../engines/embedded/index.ts'),
    import('../../service/index.ts'),
  ]);
  const dataFolder = serviceFolder(runDirectory);
  const checkpoints = checkpointsOf(options);
  const engine = await createEmbeddedEngine({
    threads,
    checkpoints,
    trainingBytes: trainingMemory,
    device,
    onFetch: showFetch,
    signal,
  });
  try {
    const known = engine.baseModels.map(({ id }) => id);
    const [firstCheckpoint = defaultBaseModel] = known.slice(known.length - checkpoints.length);
    const baseModel = options.baseModel ?? firstCheckpoint;
    if (!known.includes(baseModel)) throw noBaseModel(baseModel, known);
    const service = await startService({ engine, dataFolder, log: tellWaits(dataFolder, note) });
    const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
    const close = async () => {
      await client.close();
      await service.close();
      await engine.close();
    };
    const opened = describeCheckpoints(engine, checkpoints.length);
    return { client, dataFolder, baseModel, opened, close };
  } catch (error) {
    await engine.close();
    throw error;
  }
}

/** Tells the user why training waits, such as for room on the disk. Nobody else reads the log of this service. */
function tellWaits(dataFolder: string, note: (line: string) => void): ServiceLog {
  let told: unknown = null;
  return ({ event, code, error }) => {
    if (event === 'job_succeeded') told = null;
    if (event !== 'training_queue_paused' || code === told) return;
    told = code;
    note(`Training waits, and continues once this is over: ${error} [${code}], in ${dataFolder}`);
  };
}

const noBaseModel = (name: string, known: readonly string[]) =>
  runOptionError(
    'baseModel',
    `The service of this program has no base model ${name}, only ${known.join(', ')}. Pass its weights with ` +
      '--checkpoint (a folder in Hugging Face form, a .gguf file, hf:owner/name or ollama:name), or the service that has it with --base-url.',
  );

interface ModelOfRun {
  /** Name of the recipe and of its project on the service. */
  name: string;
  seed: number;
  ifExists: IfExists;
  service: RecipeService;
  runDirectory: string;
  signal: AbortSignal;
}

/** The model of a new run. `ifExists` decides what happens if the service already has a model with its name. */
export function openModelOfRun({
  name,
  seed,
  service,
  runDirectory,
  ...rest
}: ModelOfRun): Promise<ModelHandle> {
  const { client, dataFolder, baseModel } = service;
  // A shared service needs a name per run: with the same name, training would continue the last run's model.
  const modelName = dataFolder === null ? basename(runDirectory) : `seed-${seed}`;
  return openModel({ client, project: name, name: modelName, baseModel, ...rest });
}

/**
 * The model of a resumed run. If the service no longer has it, this makes no new model but returns a handle of the
 * deleted one, which `train` refuses with the reason.
 */
export async function reopenModelOfRun(run: ModelOfRun): Promise<ModelHandle> {
  const { client, baseModel } = run.service;
  const saved = await readSavedModel(run.runDirectory);
  if (saved && (await isDeleted(client, saved.modelId, run.signal)))
    return new ModelHandle({ client, id: saved.modelId, name: saved.model });
  const parts = saved && parseModelName(saved.model);
  if (!parts) return openModelOfRun({ ...run, ifExists: 'continue' });
  const { entity, project, name } = parts;
  return openModel({ client, entity, project, name, baseModel, signal: run.signal });
}

const savedModelSchema = z.object({ model: z.string(), modelId: z.string() });

/** The model in the run's `config.json`; undefined if that is invalid, which `train` reports. */
async function readSavedModel(runDirectory: string): Promise<z.infer<typeof savedModelSchema> | undefined> {
  const text = await readFile(join(trainingFolder(runDirectory), 'config.json'), 'utf8');
  try {
    return savedModelSchema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

async function isDeleted(client: Client, modelId: string, signal: AbortSignal): Promise<boolean> {
  try {
    await client.models.checkpoints.list(modelId, { limit: 1, signal });
    return false;
  } catch (error) {
    if (isRequestError(error, 'not_found')) return true;
    throw error;
  }
}
