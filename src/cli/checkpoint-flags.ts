import { type Command, Option } from 'commander';
import type { CheckpointOptions, EmbeddedEngineOptions, FetchProgress } from '../engines/embedded/index.ts';
import type { Engine } from '../engines/engine.ts';
import { type ChatFormat, replyStyles, tagOf } from '../language/basics.ts';
import { OptionError } from '../util/option-error.ts';
import { positiveNumber, repeatableFlag, shellWord, wholeNumber } from './flags.ts';
import { taskBar } from './task-bar.ts';

/** The values of the flags that `addCheckpointFlags` adds. */
export interface CheckpointFlags {
  checkpoint: string[];
  adapter?: string;
  train?: CheckpointOptions['train'];
  loraRank?: number;
  loraAlpha?: number;
  loraTargets?: string[];
  context?: number;
  chatTemplate?: string;
  toolCalls?: NonNullable<CheckpointOptions['format']>['toolCalls'];
  reasoning?: NonNullable<CheckpointOptions['format']>['reasoning'];
  /** In bytes. */
  trainingMemory?: number;
  device?: EmbeddedEngineOptions['device'];
}

export function addCheckpointFlags(command: Command): Command {
  return command
    .addOption(
      repeatableFlag(
        '--checkpoint <path>',
        'checkpoint to serve and train: a folder in Hugging Face form, a .gguf file, hf:owner/name[@revision] or ollama:name[:tag]',
      ),
    )
    .option(
      '--adapter <folder>',
      "LoRA adapter in PEFT's form that models of the checkpoint start from; it sets rank, alpha and targets",
    )
    .addOption(
      new Option(
        '--train <what>',
        'what training changes: an adapter (lora), or all weights of small checkpoints (default lora)',
      ).choices(['lora', 'all']),
    )
    .option('--lora-rank <number>', 'rank of the adapters that training makes (default 16)', wholeNumber(1))
    .option('--lora-alpha <number>', 'alpha of the adapters (default twice the rank)', positiveNumber)
    .option('--lora-targets <names>', 'matrices with an adapter, such as q_proj,v_proj (default all)', names)
    .option(
      '--context <tokens>',
      'longest sequence of the checkpoints, in tokens (default 8192, or less)',
      wholeNumber(1),
    )
    .option(
      '--chat-template <name>',
      "chat template in place of the checkpoints' own: a file, or hermes, which shows tools",
    )
    .addOption(
      new Option(
        '--tool-calls <style>',
        'how the checkpoints write tool calls (default: as their templates show)',
      ).choices([...replyStyles.toolCalls]),
    )
    .addOption(
      new Option(
        '--reasoning <style>',
        'how the checkpoints write reasoning (default: as their templates show)',
      ).choices(['think', 'none']),
    )
    .option(
      '--training-memory <gigabytes>',
      'memory for training a checkpoint, beside its weights (default half of the memory)',
      gigabytes,
    )
    .addOption(
      new Option(
        '--device <name>',
        'where the checkpoints run: webgpu is the graphics card (default cpu)',
      ).choices(['cpu', 'webgpu']),
    );
}

/**
 * The flags as options of the engine.
 * @throws OptionError for a flag that has no checkpoint to act on.
 */
export function checkpointsOf(flags: CheckpointFlags): CheckpointOptions[] {
  const { checkpoint, adapter, train, chatTemplate } = flags;
  const given = checkpointArguments(flags).trim();
  if (checkpoint.length === 0 && given !== '')
    throw new OptionError(
      'invalid_run_option',
      `There is no checkpoint for ${given} to act on. Pass its folder with --checkpoint, or leave this out.`,
      { option: 'checkpoint' },
    );
  if (adapter !== undefined && checkpoint.length > 1)
    throw new OptionError(
      'invalid_run_option',
      `--adapter ${adapter} belongs to one checkpoint, but there are ${checkpoint.length}: pass one --checkpoint.`,
      { option: 'adapter' },
    );
  const lora = { rank: flags.loraRank, alpha: flags.loraAlpha, targets: flags.loraTargets };
  const format = { toolCalls: flags.toolCalls, reasoning: flags.reasoning };
  return checkpoint.map((folder) => ({
    folder,
    adapter,
    train,
    lora,
    contextLength: flags.context,
    format,
    chatTemplate,
  }));
}

/** The flags again, each after a space, as a shell reads them. */
export function checkpointArguments(flags: CheckpointFlags): string {
  return [
    ...flags.checkpoint.map((folder) => ['checkpoint', shellWord(folder)]),
    ['adapter', flags.adapter && shellWord(flags.adapter)],
    ['train', flags.train],
    ['lora-rank', flags.loraRank],
    ['lora-alpha', flags.loraAlpha],
    ['lora-targets', flags.loraTargets?.join(',')],
    ['context', flags.context],
    ['chat-template', flags.chatTemplate && shellWord(flags.chatTemplate)],
    ['tool-calls', flags.toolCalls],
    ['reasoning', flags.reasoning],
    ['training-memory', flags.trainingMemory && flags.trainingMemory / 1e9],
    ['device', flags.device],
  ]
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => ` --${name} ${value}`)
    .join('');
}

/** Shows how far a checkpoint is fetched. */
export const showFetch = ({ file, bytes, totalBytes }: FetchProgress): void => {
  fetching ??= taskBar();
  fetching.show(bytes, totalBytes, `of ${(totalBytes / 1e6).toFixed(0)} MB  ${file}`);
  if (bytes >= totalBytes) fetching = undefined;
};

let fetching: ReturnType<typeof taskBar> | undefined;

/** A line for each of the last `count` base models, which are the checkpoints: what was found in their folders. */
export function describeCheckpoints(engine: Engine, count: number): string[] {
  return engine.baseModels
    .slice(engine.baseModels.length - count)
    .map(({ id, parameters, contextLength }) => {
      const size = parameters === null ? '' : `${(parameters / 1e6).toFixed(1)} million parameters, `;
      const format = describeFormat(engine.chatFormat(id));
      return `base model ${id}: ${size}${contextLength} tokens of context, ${format}`;
    });
}

/** The template of a chat format, and its forms of tool calls and reasoning. */
export function describeFormat({ templateFrom, calls, unreadCall, reasoning, channels }: ChatFormat): string {
  const none = unreadCall === undefined ? 'no tool calls' : 'tool calls in a form that is not read';
  const called = calls ? `tool calls ${tagOf(calls) || 'as bare JSON'}` : none;
  const template = templateFrom === 'checkpoint' ? 'its own template' : `template ${templateFrom}`;
  if (channels) return `${template}, tool calls and reasoning in channels`;
  return `${template}, ${called}, ${reasoning ? `reasoning in ${reasoning.open}` : 'no reasoning'}`;
}

/** Bytes, from 10^9 of them. */
const gigabytes = (text: string) => Math.ceil(positiveNumber(text) * 1e9);

/** The engine refuses unknown names. */
const names = (text: string) => text.split(',').map((name) => name.trim());
