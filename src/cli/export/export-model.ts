import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import type { Client } from '../../client/index.ts';
import { MartingaleError, printable, withoutStep } from '../../contract/index.ts';
import type { GgufType, TrainedChange } from '../../engines/embedded/tools.ts';
import { isFree, writeDurably, writeNewFolder } from '../../util/durable-files.ts';
import { isSystemError } from '../../util/error.ts';
import { showFetch } from '../checkpoint-flags.ts';
import { findTrainedModel, nameOf } from '../find-model.ts';
import { useClient } from '../open-client.ts';
import { listenForInterrupt } from '../program-end.ts';
import { taskBar } from '../task-bar.ts';

export interface ModelExport {
  out: string;
  merged?: boolean;
  /** Of GGUF files: one for a whole model, or its adapter alone. */
  to?: 'gguf';
  type?: GgufType;
  adapter?: boolean;
  chatTemplate?: string;
  checkpoint?: string;
  /** Where to look for the run that trained the model: it knows the form of the replies. */
  in: string;
  baseUrl: string;
  apiKey?: string;
}

interface ExportedModel {
  /** Its full name with the step. */
  name: string;
  modelId: string;
  step: number;
  baseModel: string;
  /** Whether its last replies were sampled under a schema, another grammar or a tool choice. */
  isConstrained: boolean;
}

/** Writes a checkpoint of a running service into a folder. */
export async function exportModel(name: string, options: ModelExport): Promise<void> {
  const { checkpoint, chatTemplate, baseUrl, apiKey } = options;
  const written = writerOf(options);
  const to = resolve(options.out);
  if (written && checkpoint === undefined)
    throw badOption(
      `${written.flag} needs --checkpoint with the base of the model. A built-in model has none: leave ${written.flag} out.`,
    );
  if (!(await isFree(to))) throw badOption(`--out ${to} exists already: name a new or an empty folder`);
  const interrupt = listenForInterrupt({ limitMs: 10_000, onFirst: () => {}, onEarlyExit: () => {} });
  const { signal } = interrupt;
  try {
    await useClient({ baseUrl, apiKey }, signal, async (client) => {
      const model = await findCheckpoint(client, name, signal);
      const base =
        checkpoint === undefined ? null : await openBase({ folder: checkpoint, chatTemplate }, signal);
      if (base && written) await exportWritten({ client, model, base, to, signal, write: written.write });
      else
        await writing(to, async (folder) => {
          await download({ client, model, folder, signal });
          if (base) await nameBase(folder, { base, model, signal });
        });
      const what = written ? `${model.name}, ${written.shown} ${base?.folder},` : model.name;
      process.stdout.write(`${what} is in ${printable(to)}\n`);
      if (model.isConstrained) process.stdout.write(await formHint(options.in, model));
    });
  } catch (error) {
    if (interrupt.status === undefined) throw error;
    process.stderr.write('Interrupted: nothing was exported.\n');
    process.exitCode = interrupt.status;
  } finally {
    interrupt.release();
  }
}

/** Finds the checkpoint of a name: `project/model` or `entity/project/model`, `:stepN` or the newest. */
async function findCheckpoint(client: Client, text: string, signal: AbortSignal): Promise<ExportedModel> {
  const { model, step: asked } = await findTrainedModel(client, text, signal);
  for await (const { step, metrics } of client.models.checkpoints.list(model.id, { order: 'desc', signal }))
    if (step === (asked ?? step))
      return {
        ...{ name: `${nameOf(model)}:step${step}`, modelId: model.id, step, baseModel: model.base_model },
        isConstrained: (metrics?.num_constrained_choices ?? 0) > 0,
      };
  throw new MartingaleError(
    'model_not_found',
    asked === undefined
      ? `the model ${model.id} has no checkpoint`
      : `${nameOf(model)} has no checkpoint of step ${asked}`,
  );
}

/** Under which forms a model was trained, if its run is in `folder`, and in which words other programs take them. */
async function formHint(folder: string, { name }: ExportedModel): Promise<string> {
  const forms = await formsOf(withoutStep(name), folder);
  const lines =
    forms.length > 0
      ? forms.map((form) => `Its replies were sampled under ${form}`)
      : ['Its replies were sampled under a schema, another grammar or a tool choice.'];
  lines.push(
    'A model does not learn what was forced: ask for it again, with response_format (llama.cpp, vLLM and others of the OpenAI API), structured_outputs (vLLM) or format (Ollama).',
  );
  return `${lines.map(printable).join('\n')}\n`;
}

/** The forms that the newest run of a model asked its replies in; none if it is not below `folder`, or unreadable. */
async function formsOf(model: string, folder: string): Promise<string[]> {
  const { RunViews } = await import('../../view/index.ts');
  const { readRun } = await import('../../training/index.ts');
  const { runs } = await new RunViews([resolve(folder)]).list();
  const run = runs.find((row) => row.model !== null && withoutStep(row.model) === model);
  if (!run || run.status === 'broken') return [];
  const reports = await (await readRun(run.folder)).reports();
  return [...new Set(reports.flatMap(({ askedForms }) => askedForms))];
}

type Base = Awaited<ReturnType<typeof openBase>>;

async function openBase(
  checkpoint: { folder: string; chatTemplate?: string | undefined },
  signal: AbortSignal,
) {
  const { inspectCheckpoint } = await import('../../engines/embedded/tools.ts');
  const inspected = await inspectCheckpoint(checkpoint, { onFetch: showFetch, signal });
  // Other programs find a checkpoint of the hub, or of Ollama, by its name.
  const name = /^(?:hf|ollama):(.*?)(?:@.*)?$/.exec(checkpoint.folder)?.[1];
  return { ...inspected, address: name ?? inspected.folder };
}

interface Download {
  client: Client;
  model: ExportedModel;
  folder: string;
  signal: AbortSignal;
}

/** Stores the files of a checkpoint in a folder: an adapter's two, or the single one of a model with all its weights. */
async function download({ client, model, folder, signal }: Download): Promise<void> {
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
async function nameBase(folder: string, trained: Trained): Promise<void> {
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
async function readChange(
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

/** Writes a model with its base at hand. */
type Write = (given: {
  base: Base;
  model: ExportedModel;
  change: TrainedChange;
  to: string;
  signal: AbortSignal;
  onProgress: (done: number, total: number) => void;
}) => Promise<void>;

/** How a model is written that is not written as PEFT's files; null if it is. @throws MartingaleError (`bad_option`) */
function writerOf({
  merged,
  to: form,
  type,
  adapter: adapterOnly = false,
  chatTemplate,
}: ModelExport): { flag: string; shown: string; write: Write } | null {
  if (merged && form === 'gguf')
    throw badOption('--merged writes a folder, --to gguf a file: leave one of them out');
  if (form !== 'gguf' && (adapterOnly || type !== undefined))
    throw badOption(`--${adapterOnly ? 'adapter' : 'type'} is for --to gguf: leave it out`);
  if (adapterOnly && type !== undefined)
    throw badOption('--type is for a whole model: an adapter is written in float32');
  if (chatTemplate !== undefined && !merged && (form !== 'gguf' || adapterOnly))
    throw badOption('--chat-template is for --merged and for the whole model of --to gguf: leave it out');
  if (merged)
    return {
      flag: '--merged',
      shown: 'merged into',
      write: async ({ base, change, to, ...options }) => {
        const { writeMerged } = await import('../../engines/embedded/tools.ts');
        const template = chatTemplate === undefined ? undefined : base.language.format.template;
        await writeMerged(base.source, change, to, { ...options, chatTemplate: template });
      },
    };
  if (form !== 'gguf') return null;
  return {
    flag: '--to gguf',
    shown: adapterOnly ? 'as an adapter of' : 'merged into',
    write: async ({ base, model, change, to, ...options }) => {
      const { writeGgufFiles } = await import('./gguf.ts');
      await writeNewFolder(to, (folder) =>
        writeGgufFiles({
          folder,
          base,
          name: model.name,
          change,
          type: type ?? 'f16',
          adapterOnly,
          ...options,
        }),
      );
    },
  };
}

interface WrittenExport extends Omit<Download, 'folder'> {
  base: Base;
  to: string;
  write: Write;
}

async function exportWritten({ base, to, write, ...rest }: WrittenExport): Promise<void> {
  const { model, signal } = rest;
  const bar = taskBar();
  const folder = await mkdtemp(join(tmpdir(), 'martingale-export-'));
  try {
    await refusingFullDisks(folder, () => download({ ...rest, folder }));
    await using change = await readChange(folder, { base, model, signal });
    const onProgress = (done: number, total: number) => bar.show(done, total, `of ${basename(to)}`);
    await refusingFullDisks(to, () => write({ base, model, change, to, signal, onProgress }));
  } finally {
    bar.clear();
    await rm(folder, { recursive: true, force: true });
  }
}

const writing = (to: string, fill: (folder: string) => Promise<void>) =>
  refusingFullDisks(to, () => writeNewFolder(to, fill));

/** @throws MartingaleError (`storage_failed`) for an error of the operating system. */
async function refusingFullDisks<Result>(path: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (!isSystemError(error)) throw error;
    throw new MartingaleError(
      'storage_failed',
      `${path} could not be written: ${error.message}. Free disk space or fix the cause, then export again: nothing is left there`,
      { cause: error },
    );
  }
}

const badOption = (problem: string) => new MartingaleError('bad_option', problem);

const badArchive = ({ name }: ExportedModel, problem: string) =>
  new MartingaleError(
    'bad_response',
    `the download of ${name} is not a LoRA adapter in PEFT's form: it ${problem}`,
  );
