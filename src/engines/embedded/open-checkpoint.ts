import { resolve } from 'node:path';
import {
  chatTemplateNames,
  type GivenTemplate,
  type Language,
  type ReplyStyles,
  readLanguage,
  replyStyles,
} from '../../language/index.ts';
import { messageOf } from '../../util/error.ts';
import { checkOptionNames, type OptionNames, objectOf } from '../../util/option-names.ts';
import { readRegularFile } from '../../util/regular-file.ts';
import { sumOf } from '../../util/sums.ts';
import { EngineError } from '../engine.ts';
import { builtInModels, type EmbeddedBaseModel } from './base-models.ts';
import { type FetchWait, idOf, locate } from './checkpoint/address.ts';
import { readConfig } from './checkpoint/config.ts';
import { hashWeights, readCheckpoint } from './checkpoint/read-checkpoint.ts';
import { openSource } from './checkpoint/source.ts';
import type { CheckpointSource } from './checkpoint/tensor-files.ts';
import { checkpointTensors } from './checkpoint/tensors.ts';
import {
  badOption,
  checkBase,
  checkLora,
  isWholeNumber,
  type LoraOptions,
  loraSettings,
  readStart,
} from './lora-options.ts';
import { mostTrainedValues } from './runner/adapter-vector.ts';
import { elementsOf } from './weights/architecture.ts';

/** A checkpoint that the engine reads when it is created, and lists among its base models. */
export interface CheckpointOptions {
  /**
   * A folder in Hugging Face form, of an instruct model: Llama 3, SmolLM2, SmolLM3, Qwen2.5, Qwen3, Gemma 3, LFM2, Granite or
   * Mistral, with weights in float32, bfloat16 or float16, its tokenizer and its chat template. `~` is not expanded. Or `hf:owner/name`, or
   * `hf:owner/name@revision`: fetched from the Hugging Face hub into `~/.cache/martingale/checkpoints`, unless it is
   * there. The environment variables `HF_TOKEN`, `HF_ENDPOINT` and `XDG_CACHE_HOME` count. Or a GGUF file of such a model
   * (F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K, IQ4_NL), or `ollama:name[:tag]`, one that Ollama has on this
   * machine (`OLLAMA_MODELS` counts). Quantized weights are used as the numbers that they stand for, in float32.
   */
  folder: string;
  /** Name of the base model. Default: the name of the folder, or of the file without `.gguf`, or on the hub, or `name-tag`. */
  id?: string;
  /**
   * Folder of a LoRA adapter in PEFT's form, with which the models of this checkpoint begin: plain LoRA, without the
   * variants that change what it computes. The base model itself samples with it too, and is with it the reference of a
   * KL penalty. `lora` is the adapter's. Default: an adapter that changes nothing.
   */
  adapter?: string;
  /**
   * What training changes: `lora`, an adapter beside the weights, or `all` weights, which takes four more copies of them
   * in memory and two on disk for each checkpoint: at most 268 million, on the CPU, and without `adapter` and `lora`.
   * Default `lora`.
   */
  train?: 'lora' | 'all';
  lora?: LoraOptions;
  /**
   * Longest sequence in tokens, prompt and reply together. Default: the checkpoint's, at most 8192, because keys
   * and values of longer ones take gigabytes.
   */
  contextLength?: number;
  /** How its replies hold tool calls and reasoning, where the template does not show it. */
  format?: ReplyStyles;
  /**
   * A chat template in place of the checkpoint's own: the path of a Jinja file, or `hermes`, which shows tools and takes
   * calls between `<tool_call>` tags; for models with the tokens of ChatML, Llama 3 or Gemma.
   */
  chatTemplate?: string;
}

const optionNames = {
  folder: 'path',
  id: 'text',
  adapter: 'path',
  train: true,
  lora: objectOf({ rank: true, alpha: true, targets: 'list' } satisfies OptionNames<LoraOptions>),
  contextLength: 'count',
  format: objectOf({ toolCalls: true, reasoning: true } satisfies OptionNames<ReplyStyles>),
  chatTemplate: 'path',
} satisfies OptionNames<CheckpointOptions>;

/** Longest context that a checkpoint has without the option. */
const defaultContextLength = 8192;

/** LoRA learns best at about ten times the rates of full training, whatever its rank. */
const defaults = {
  lora: { rlLearningRate: 1e-4, sftLearningRate: 2e-4, sftBatchSize: 16 },
  all: { rlLearningRate: 1e-5, sftLearningRate: 2e-5, sftBatchSize: 16 },
} as const;

/**
 * Reads checkpoints with their tokenizers, one after another. Rejects with the signal's reason when aborted.
 *
 * @throws EngineError or LanguageError (`bad_option`, `bad_checkpoint`, `checkpoint_unsupported`) that names the option,
 * or the file, the field and its value.
 */
export async function openCheckpoints(
  options: readonly CheckpointOptions[],
  wait: FetchWait = {},
): Promise<{ model: EmbeddedBaseModel; language: Language }[]> {
  for (const one of options) checkOptionNames('A checkpoint', one, optionNames);
  const ids = new Set(builtInModels.map(({ id }) => id));
  for (const { folder, id = idOf(folder) } of options) {
    if (id.trim() === '')
      throw badOption(`\`id\` of ${folder} is empty. Leave it out to use the folder's name.`);
    if (ids.has(id))
      throw badOption(`two base models are called ${id}. Give the one in ${folder} another id.`);
    ids.add(id);
  }
  const opened = [];
  for (const one of options) opened.push(await openCheckpoint(one, wait));
  return opened;
}

/** What is known of a checkpoint before its weights are read. */
export interface InspectedCheckpoint
  extends Pick<EmbeddedBaseModel, 'id' | 'architecture' | 'trained' | 'start' | 'parameters'> {
  /** Absolute path; of a checkpoint of the hub, its folder in the cache. */
  folder: string;
  source: CheckpointSource;
  /** Its `model_type` in `config.json`. */
  modelType: string;
  language: Awaited<ReturnType<typeof readLanguage>>;
}

/**
 * Reads what a folder says without its weights, and fetches it if it is of the hub. `contextLength` of the architecture is
 * the one to use. Rejects with the signal's reason when aborted.
 *
 * @throws EngineError or LanguageError (`bad_option`, `bad_checkpoint`, `checkpoint_unsupported`), as `openCheckpoints`.
 */
export async function inspectCheckpoint(
  {
    folder: address,
    id = idOf(address),
    adapter,
    train = 'lora',
    lora = {},
    contextLength,
    format = {},
    chatTemplate,
  }: CheckpointOptions,
  wait: FetchWait = {},
): Promise<InspectedCheckpoint> {
  checkTrained({ train, adapter, lora });
  checkStyles(format);
  const folder = await locate(address, wait);
  wait.signal?.throwIfAborted();
  const source = await openSource(folder);
  const { architecture: own, family } = readConfig(source);
  // A prompt and a reply have a token each.
  if (
    contextLength !== undefined &&
    (contextLength === 1 || !isWholeNumber(contextLength, own.contextLength))
  )
    throw badOption(
      `\`contextLength\` is ${contextLength}. Pass a whole number from 2 to ${own.contextLength} (max_position_embeddings of ${folder}).`,
    );
  const architecture = {
    ...own,
    contextLength: contextLength ?? Math.min(defaultContextLength, own.contextLength),
  };
  const language = readLanguage(source, format, givenTemplate(chatTemplate));
  const { vocabularySize } = language.tokenizer;
  if (vocabularySize > architecture.vocabularySize)
    throw new EngineError(
      'bad_checkpoint',
      `${folder}: tokenizer.json has ${vocabularySize} ids, but vocab_size in config.json is ${architecture.vocabularySize}. Take both files from the same checkpoint.`,
    );
  const parameters = sumOf(checkpointTensors(architecture), ({ dimensions }) => elementsOf(dimensions));
  const trained = train === 'all' ? train : loraSettings(lora, own);
  const begun =
    adapter === undefined
      ? { trained, start: null }
      : await readStart(resolve(adapter), own, { lora, signal: wait.signal });
  if (train === 'all' && parameters > mostTrainedValues)
    throw badOption(
      `\`train\` is 'all', but ${folder} has ${parameters} weights, and at most ${mostTrainedValues} can be trained. Use 'lora'.`,
    );
  return { id, folder, source, modelType: family.modelType, architecture, language, parameters, ...begun };
}

/** Refuses options of training that are wrong for any checkpoint. */
function checkTrained({
  train,
  adapter,
  lora,
}: Required<Pick<CheckpointOptions, 'train' | 'lora'>> & Pick<CheckpointOptions, 'adapter'>): void {
  if (train !== 'lora' && train !== 'all') throw badOption(`\`train\` is ${train}. Pass 'lora' or 'all'.`);
  if (train === 'lora') {
    checkLora(lora);
    return;
  }
  const [given] = Object.entries({ adapter, ...lora }).find(([, value]) => value !== undefined) ?? [];
  if (given === undefined) return;
  const option = given === 'adapter' ? given : `lora.${given}`;
  throw badOption(
    `\`train\` is 'all', and ${option} is for adapters. Leave one of them out. To continue from an adapter, merge it into its checkpoint first (martingale export --merged).`,
  );
}

async function openCheckpoint(
  options: CheckpointOptions,
  wait: FetchWait,
): Promise<{ model: EmbeddedBaseModel; language: Language }> {
  const inspected = await inspectCheckpoint(options, wait);
  const { id, folder, architecture, trained, start, parameters } = inspected;
  const { weights } = await readCheckpoint(inspected.source, wait.signal);
  const weightsHash = hashWeights(weights);
  if (options.adapter !== undefined) await checkBase(resolve(options.adapter), folder, weightsHash);
  const { shared, ...language } = inspected.language;
  const model: EmbeddedBaseModel = {
    id,
    isSmall: false,
    architecture,
    contextLength: architecture.contextLength,
    vocabularySize: language.tokenizer.vocabularySize,
    parameters,
    weights,
    weightsHash,
    language: shared,
    trained,
    start,
    defaults: defaults[trained === 'all' ? 'all' : 'lora'],
  };
  return { model, language };
}

const maxTemplateBytes = 256 * 1024;

function givenTemplate(given: string | undefined): GivenTemplate | undefined {
  if (given === undefined) return undefined;
  if (chatTemplateNames.some((name) => name === given)) return { name: given, source: null };
  try {
    return { name: given, source: readRegularFile(resolve(given), maxTemplateBytes).toString() };
  } catch (error) {
    throw badOption(
      `\`chatTemplate\` ${given} cannot be read: ${messageOf(error)}. Give the path of a file, or one of ${chatTemplateNames.join(', ')}.`,
    );
  }
}

function checkStyles(format: ReplyStyles): void {
  for (const name of ['toolCalls', 'reasoning'] as const) {
    const known: readonly string[] = replyStyles[name];
    const value = format[name];
    if (value !== undefined && !known.includes(value))
      throw badOption(`\`format.${name}\` is ${value}. Pass one of ${known.join(', ')}.`);
  }
}
