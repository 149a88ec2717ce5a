import { createHash } from 'node:crypto';
import { sumOf } from '../../../util/sums.ts';
import { EngineError } from '../../engine.ts';
import { usableMemory } from '../memory.ts';
import { elementsOf } from '../weights/architecture.ts';
import { badCheckpoint } from './bad-checkpoint.ts';
import { type CheckpointConfig, readConfig } from './config.ts';
import { openSource } from './source.ts';
import {
  type CheckpointSource,
  type CheckpointTensor,
  readTensor,
  type TensorFiles,
} from './tensor-files.ts';
import { checkpointTensors, embeddingTensor, headTensor } from './tensors.ts';

/** A checkpoint whose weights are in memory. */
interface Checkpoint extends CheckpointConfig {
  /** Each tensor by its name in the files, as float32 in shared memory: threads that get it share one copy. */
  weights: ReadonlyMap<string, Float32Array>;
}

/**
 * Reads a model of one of the `families`: a folder in Hugging Face form, with weights in float32, bfloat16 or float16 in one
 * or several safetensors files, or a GGUF file. Other work of the thread goes on meanwhile. Rejects with the signal's reason
 * when aborted.
 *
 * @throws EngineError or LanguageError (`checkpoint_unsupported`, `bad_checkpoint`) that names file, field and value.
 */
export async function readCheckpoint(
  from: string | CheckpointSource,
  signal?: AbortSignal,
): Promise<Checkpoint> {
  const source = await openSource(from);
  const config = readConfig(source);
  await using files = await source.openTensors();
  const weights = new Map<string, Float32Array>();
  const tensors = await selectTensors(files, config, signal);
  checkMemory(source.path, tensors);
  for (const tensor of tensors) weights.set(tensor.name, await readTensor(tensor, signal));
  return { ...config, weights };
}

/** Refuses weights that do not fit, by the sizes of their tensors: a sparse file may be longer than what it stores. */
function checkMemory(folder: string, tensors: readonly CheckpointTensor[]): void {
  const needed = sumOf(tensors, ({ dimensions }) => 4 * elementsOf(dimensions));
  const usable = usableMemory();
  if (needed <= usable) return;
  const [needs, has] = [needed, usable].map((bytes) => `${(bytes / 2 ** 30).toFixed(1)} GiB`);
  throw new EngineError(
    'checkpoint_unsupported',
    `${folder}: the weights need ${needs} as float32, and this machine has ${has}. Choose a smaller checkpoint, or a training server.`,
  );
}

/** Values of each tensor that its hash covers. Checkpoints differ nearly everywhere. */
const hashedValues = 4096;

/** SHA-256 over values of all tensors, evenly spread. Another checkpoint, or the same one trained further, has another. */
export function hashWeights(weights: Checkpoint['weights']): string {
  const hash = new WeightsHash();
  for (const [name, values] of [...weights].sort(byName)) {
    hash.begin(name, values.length);
    hash.add(values);
  }
  return hash.digest();
}

/**
 * `hashWeights` of a checkpoint on disk, with a piece of a tensor in memory at a time. Rejects with the signal's reason
 * when aborted.
 * @throws EngineError as `readCheckpoint`.
 */
export async function hashCheckpoint(from: string | CheckpointSource, signal?: AbortSignal): Promise<string> {
  const source = await openSource(from);
  const config = readConfig(source);
  await using files = await source.openTensors();
  const selected = await selectTensors(files, config, signal);
  const tensors = selected.map((tensor) => [tensor.name, tensor] as const);
  const hash = new WeightsHash();
  for (const [name, tensor] of tensors.sort(byName)) {
    hash.begin(name, elementsOf(tensor.dimensions));
    for await (const values of tensor.file.values(tensor)) {
      signal?.throwIfAborted();
      hash.add(values);
    }
  }
  return hash.digest();
}

const byName = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]) => (a < b ? -1 : 1);

/** A hash over values of tensors. The values of each may come in pieces. */
class WeightsHash {
  readonly #hash = createHash('sha256');
  #step = 1;
  /** Values until the next that counts. */
  #skip = 0;

  begin(name: string, length: number): void {
    this.#step = Math.max(1, Math.floor(length / hashedValues));
    this.#skip = 0;
    this.#hash.update(`${name} ${length}\n`);
  }

  add(values: Float32Array): void {
    const count = Math.max(0, Math.ceil((values.length - this.#skip) / this.#step));
    const chosen = Float32Array.from(
      { length: count },
      (_, index) => values[this.#skip + index * this.#step] ?? 0,
    );
    this.#hash.update(chosen);
    this.#skip += count * this.#step - values.length;
  }

  digest(): string {
    return `sha256-${this.#hash.digest('hex').slice(0, 32)}`;
  }
}

/** The tensors of a checkpoint in its files, checked against its configuration. */
export async function selectTensors(
  files: TensorFiles,
  { architecture }: CheckpointConfig,
  signal?: AbortSignal,
): Promise<CheckpointTensor[]> {
  const shapes = checkpointTensors(architecture);
  // Old checkpoints store the rotary frequencies, which the configuration determines.
  const rules = { by: 'config.json', ignores: (name: string) => name.endsWith('.rotary_emb.inv_freq') };
  const copy = files.files.find(({ tensors }) => tensors.has(headTensor));
  if (!architecture.tiedEmbeddings || !copy) return files.select(shapes, rules);
  const [table, ...rest] = files.select(
    [...shapes, { name: headTensor, dimensions: [architecture.vocabularySize, architecture.width] }],
    rules,
  );
  const last = rest.pop();
  if (!table || !last || !(await areEqual(table, last, signal)))
    throw badCheckpoint(
      `${copy.path}: ${headTensor} differs from ${embeddingTensor}, but tie_word_embeddings in config.json is true. Set it to false.`,
    );
  return [table, ...rest];
}

async function areEqual(
  one: CheckpointTensor,
  other: CheckpointTensor,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const others = other.file.values(other)[Symbol.asyncIterator]();
  for await (const values of one.file.values(one)) {
    signal?.throwIfAborted();
    const { value } = await others.next();
    if (!value?.every((number: number, index: number) => Object.is(number, values[index]))) return false;
  }
  return true;
}
