import { readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { Client } from '../../client/index.ts';
import { MartingaleError } from '../../contract/index.ts';
import type { TrainedChange } from '../../engines/embedded/tools.ts';
import { writeDurably } from '../../util/durable-files.ts';
import { badOption } from '../bad-option.ts';
import { showFetch } from '../checkpoint-flags.ts';

export interface ExportedModel {
  /** Its full name with the step. */
  name: string;
  modelId: string;
  step: number;
  baseModel: string;
  /** Whether its last replies were sampled under a schema, another grammar or a tool choice. */
  isConstrained: boolean;
}

export type Base = Awaited<ReturnType<typeof openBase>>;

export async function openBase(
  checkpoint: { folder: string; chatTemplate?: string | undefined },
  signal: AbortSignal,
) {
  const { inspectCheckpoint } = await import('../../engines/embedded/tools.ts');
  const inspected = await inspectCheckpoint(checkpoint, { onFetch: showFetch, signal });
  // Other programs find a checkpoint of the hub, or of Ollama, by its name.
  const name = /^(?:hf|ollama):(.*?)(?:@.*)?$/.exec(checkpoint.folder)?.[1];
  return { ...inspected, address: name ?? inspected.folder };
}

export interface Download {
  client: Client;
  model: ExportedModel;
  folder: string;
  signal: AbortSignal;
}

/** Stores the files of a checkpoint in a folder: an adapter's two, or the single one of a model with all its weights. */
export async function download({ client, model, folder, signal }: Download): Promise<void> {
  const { decodeTar } = await import('../../util/tar.ts');
  const file = await client.models.checkpoints.download(model.modelId, model.step, { signal });
  if (!file.fileName.endsWith('.tar')) return await writeDurably(join(folder, file.fileName), file.stream);
  const { adapterConfigFile, adapterWeightsFile } = await import('../../engines/embedded/tools.ts');
  const missing = new Set<string>([adapterConfigFile, adapterWeightsFile]);
  for await (const { path, content } of decodeTar(file.stream)) {
    // The names are known, so that no archive can write elsewhere.
    if (!missing.delete(basename(path))) throw badArchive(model, `has a file ${path}`);
    await writeDurably(join(folder, basename(path)), content);
  }
  for (const name of missing) throw badArchive(model, `has no ${name}`);
}

interface Trained {
  base: Base;
  model: ExportedModel;
  signal: AbortSignal;
}

/** Names the base model in PEFT's configuration by an address where PEFT finds it. */
export async function nameBase(folder: string, trained: Trained): Promise<void> {
  const { base, model } = trained;
  await using change = await readChange(folder, trained);
  if (!('tensors' in change))
    throw badOption(
      `training changed all weights of ${model.name}, so it has no adapter: leave out --checkpoint, or add --merged or --to gguf`,
    );
  const { adapterConfigFile } = await import('../../engines/embedded/tools.ts');
  const path = join(folder, adapterConfigFile);
  const config = { ...JSON.parse(await readFile(path, 'utf8')), base_model_name_or_path: base.address };
  await writeFile(path, `${JSON.stringify(config, null, 2)}\n`, { flush: true });
}

/**
 * What training has made of the base: the adapter, or all weights, in a folder.
 * @throws MartingaleError (`wrong_base`) if it does not belong to the base's weights, `bad_option` for a model without a base.
 */
export async function readChange(
  folder: string,
  { base, model, signal }: Trained,
): Promise<TrainedChange & AsyncDisposable> {
  const { adapterWeightsFile, hashCheckpoint, openTrainedWeights, readAdapter, readBaseWeights } =
    await import('../../engines/embedded/tools.ts');
  const [first = ''] = (await readdir(folder)).filter((name) => name.endsWith('.safetensors'));
  const isAdapter = first === adapterWeightsFile;
  const expected = await readBaseWeights(join(folder, first));
  if (expected === undefined && !isAdapter)
    throw badOption(
      `${model.name} is a model of ${model.baseModel}, which has no LoRA adapter: leave out --merged, --to and --checkpoint`,
    );
  if (expected === undefined) throw badArchive(model, 'does not say which base weights it belongs to');
  if (expected !== (await hashCheckpoint(base.source, signal)))
    throw new MartingaleError(
      'wrong_base',
      `${model.name} was trained on ${model.baseModel}, whose weights differ from ${base.folder}: pass with --checkpoint ` +
        `the folder that the service has as ${model.baseModel}`,
    );
  if (isAdapter)
    return {
      ...(await readAdapter(folder, base.architecture, signal)),
      [Symbol.asyncDispose]: async () => {},
    };
  return openTrainedWeights(join(folder, first), base.architecture);
}

const badArchive = ({ name }: ExportedModel, problem: string) =>
  new MartingaleError(
    'bad_response',
    `the download of ${name} is not a LoRA adapter in PEFT's form: it ${problem}`,
  );
