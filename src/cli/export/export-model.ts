import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import type { Client } from '../../client/index.ts';
import { MartingaleError, printable } from '../../contract/index.ts';
import type { GgufType, TrainedChange } from '../../engines/embedded/tools.ts';
import { isFree, writeNewFolder } from '../../util/durable-files.ts';
import { isSystemError } from '../../util/error.ts';
import { badOption } from '../bad-option.ts';
import { findTrainedModel, nameOf } from '../find-model.ts';
import { useClient } from '../open-client.ts';
import { listenForInterrupt } from '../program-end.ts';
import { taskBar } from '../task-bar.ts';
import { formHint } from './form-hint.ts';
import {
  type Base,
  type Download,
  download,
  type ExportedModel,
  nameBase,
  openBase,
  readChange,
} from './trained-change.ts';

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
      if (model.isConstrained) process.stdout.write(await formHint(options.in, model.name));
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
