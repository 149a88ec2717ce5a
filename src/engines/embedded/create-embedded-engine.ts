import { availableParallelism } from 'node:os';
import { untilAborted } from '../../util/deadline.ts';
import { checkOptionNames, type OptionNames } from '../../util/option-names.ts';
import { showValue } from '../../util/show-value.ts';
import { warn } from '../../util/warning.ts';
import type { Engine } from '../engine.ts';
import { EngineError } from '../engine.ts';
import type { FetchProgress } from './checkpoint/fetch-checkpoint.ts';
import { EmbeddedEngine } from './embedded-engine.ts';
import { loadProcessors, processorModules } from './extensions/logits-processors.ts';
import { defaultHeapBytes, defaultPrefixBytes, defaultTrainingBytes } from './memory.ts';
import { type CheckpointOptions, openCheckpoints } from './open-checkpoint.ts';
import { chosenRuntime, type Device, devices, installCommand, type RuntimeChoice } from './runtime.ts';

export interface EmbeddedEngineOptions {
  /**
   * Checkpoints to sample from and to train, besides the tiny models. Each is read once, as float32; training makes
   * adapters, or changes a copy of its weights. Default: none.
   *
   * @example [{ folder: './Qwen3-0.6B', lora: { rank: 16 }, contextLength: 4096 }]
   */
  checkpoints?: readonly CheckpointOptions[];
  /** Called while a checkpoint is fetched from the hub. Default: nothing. */
  onFetch?: (progress: FetchProgress) => void;
  /**
   * Ends the opening: fetching and reading checkpoints, the start of threads, the self-tests. The call rejects with its
   * reason once the threads have ended. What was fetched stays, and the next call continues. Has no effect on the opened
   * engine, which `close` ends. Default: none.
   */
  signal?: AbortSignal;
  /**
   * `onnxruntime-node`, `onnxruntime-web`, or `auto`, which takes `onnxruntime-node` when it can be loaded and the
   * slower `onnxruntime-web` otherwise. Both are optional peer dependencies: install one, or creating the engine fails
   * with the code `runtime_missing`. Default: `MARTINGALE_RUNTIME`, else `auto`.
   */
  runtime?: RuntimeChoice;
  /**
   * Where checkpoints are sampled and trained. `webgpu` is the graphics card, by Metal, Direct3D 12 or Vulkan: it needs
   * `onnxruntime-node`, and a copy of the weights on the card for sampling and one for training. Without a usable card,
   * creating the engine fails with the code `device_missing`. The tiny models stay on the CPU. Default `cpu`.
   */
  device?: Device;
  /** Cores that training uses, at most 256. Default: the machine's cores, at most 4. */
  threads?: number;
  /**
   * Cores that sampling uses: a thread on each for the tiny models, one thread on all of them for checkpoints, whose
   * weights it reads once for each step. At most 256. Default: `threads`.
   */
  samplerThreads?: number;
  /**
   * Replies that one thread samples at once from one set of weights; others wait. A beam search counts its width.
   * Default 256.
   */
  largestBatch?: number;
  /**
   * Memory for keys and values of ended sequences, in bytes, for all sets of weights together. The least recently used
   * are dropped first; 0 keeps none. With checkpoints, one half is for them. Default 256 MiB; with checkpoints an eighth
   * of the memory, if that is more. Here and below, the memory is the machine's, or its
   * container's limit.
   */
  prefixCacheBytes?: number;
  /**
   * Memory that training a checkpoint may use beside its weights, in bytes. A job with a sequence that does not fit alone
   * is refused before it trains, with what it needs. Default: half of the memory.
   */
  trainingBytes?: number;
  /**
   * Logits processors that requests may use, by name. Each value is the URL or the file path of a module whose default
   * export is a `LogitsProcessorFactory`. The module is loaded in this thread and in the engine's threads:
   * `{ 'my.Processor': new URL('./my-processor.ts', import.meta.url) }`. Default: none.
   */
  logitsProcessors?: Readonly<Record<string, string | URL>>;
  /**
   * Heap of each thread, in bytes. A thread that needs more is ended: its calls in flight fail with
   * `worker_died`, and a new thread replaces it. Weights and caches are not on the heap. Default: a quarter of the
   * memory, at least 512 MiB and at most 4 GiB.
   */
  threadHeapBytes?: number;
  /**
   * How long a thread may spend in one piece of JavaScript, such as a logits processor, before it is ended in the same
   * way. Runs of the model do not count, nor does, on Linux, the time in which the thread waits for a processor that
   * others use. Default 60000.
   */
  threadTimeoutMs?: number;
}

const optionNames = {
  checkpoints: 'list',
  onFetch: 'function',
  signal: 'signal',
  runtime: true,
  device: true,
  threads: true,
  samplerThreads: true,
  largestBatch: true,
  prefixCacheBytes: true,
  trainingBytes: true,
  logitsProcessors: 'object',
  threadHeapBytes: true,
  threadTimeoutMs: true,
} satisfies OptionNames<EmbeddedEngineOptions>;

/** More threads would not be faster: each opens a runtime of its own. */
const mostThreads = 256;

/**
 * The engine that runs anywhere: transformers on ONNX Runtime, sampling and training in worker threads. With the tiny
 * models the same seed gives the same tokens whatever else is running, and training repeats bit for bit on the same
 * machine, also with another number of threads. With checkpoints the same seed gives the same tokens too; on WebGPU only
 * at the same load.
 *
 * `close` fails all calls in flight and all later ones at once, with the code `engine_closed`. It resolves when the
 * threads have ended: each completes its current run of the model and the checkpoint it is writing, and is terminated
 * when that takes longer than ten seconds.
 *
 * @throws OptionError (`unknown_option`, `invalid_option`); EngineError or LanguageError (`bad_option`, `bad_checkpoint`,
 * `checkpoint_unsupported`, `runtime_missing`, `device_missing`).
 */
export async function createEmbeddedEngine(options: EmbeddedEngineOptions = {}): Promise<Engine> {
  checkOptionNames('createEmbeddedEngine()', options, optionNames);
  const {
    checkpoints = [],
    device = 'cpu',
    threads = Math.min(4, availableParallelism()),
    samplerThreads = threads,
    largestBatch = 256,
    prefixCacheBytes = defaultPrefixBytes(checkpoints.length > 0),
    trainingBytes = defaultTrainingBytes(),
    logitsProcessors = {},
    threadHeapBytes = defaultHeapBytes(),
    threadTimeoutMs = 60_000,
    onFetch,
    signal,
  } = options;
  const runtime = chosenRuntime(options.runtime);
  const wholeNumbers = {
    threads,
    samplerThreads,
    largestBatch,
    trainingBytes,
    threadHeapBytes,
    threadTimeoutMs,
  };
  for (const [name, value] of Object.entries(wholeNumbers))
    if (!Number.isInteger(value) || value < 1)
      throw new EngineError('bad_option', `\`${name}\` is ${value}. Pass a whole number of at least 1.`);
  for (const [name, value] of Object.entries({ threads, samplerThreads }))
    if (value > mostThreads)
      throw new EngineError('bad_option', `\`${name}\` is ${value}. Pass at most ${mostThreads}.`);
  if (!Number.isSafeInteger(prefixCacheBytes) || prefixCacheBytes < 0)
    throw new EngineError(
      'bad_option',
      `\`prefixCacheBytes\` is ${prefixCacheBytes}. Pass a whole number of at least 0.`,
    );
  checkDevice(device, checkpoints);
  const modules = processorModules(logitsProcessors);
  signal?.throwIfAborted();
  const processors = await untilAborted(loadProcessors(modules), signal);
  const opened = await openCheckpoints(checkpoints, { onFetch, signal });
  const settings = {
    runtime,
    device,
    checkpoints: opened.map(({ model }) => model),
    largestBatch,
    prefixCacheBytes,
    trainingBytes,
    logitsProcessors: modules,
    threadHeapBytes,
    threadTimeoutMs,
  };
  const engine = new EmbeddedEngine(
    { logitsProcessors: [...processors.keys()], languages: opened.map(({ language }) => language) },
    { ...settings, threads: samplerThreads },
    { ...settings, threads },
  );
  const started = await engine.start(signal);
  if (runtime === 'auto' && started === 'onnxruntime-web')
    warn(
      'martingale_slow_runtime',
      `onnxruntime-node is not installed or cannot be loaded here, so the embedded engine runs on onnxruntime-web, which is slower. Run: ${installCommand('onnxruntime-node')} - or set MARTINGALE_RUNTIME=onnxruntime-web to hide this warning.`,
    );
  return engine;
}

function checkDevice(device: Device, checkpoints: readonly CheckpointOptions[]): void {
  if (!devices.includes(device))
    throw new EngineError('bad_option', `\`device\` is ${showValue(device)}. Pass ${devices.join(' or ')}.`);
  if (device !== 'cpu' && checkpoints.some(({ train }) => train === 'all'))
    throw new EngineError(
      'bad_option',
      `\`checkpoints\`: \`train\` is 'all', which needs the device cpu: on ${device} only adapters can be trained. Use 'lora', or leave the device out.`,
    );
  if (device !== 'cpu' && checkpoints.length === 0)
    throw new EngineError(
      'bad_option',
      `The device ${device} is for checkpoints, and there are none: the tiny models run on the CPU. Add a checkpoint, or leave the device out.`,
    );
}
