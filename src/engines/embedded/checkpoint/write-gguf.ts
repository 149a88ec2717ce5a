import type { ChatFormat } from '../../../language/index.ts';
import { writeDurably } from '../../../util/durable-files.ts';
import { type Architecture, elementsOf } from '../weights/architecture.ts';
import { type Adapter, adapterTensors } from './adapter.ts';
import { type CheckpointConfig, readConfig } from './config.ts';
import type { Family } from './families/family.ts';
import {
  bytesOf,
  encodeGgufHeader,
  type GgufField,
  type GgufTensorShape,
  type GgufType,
  padding,
} from './gguf/encode-header.ts';
import { pack } from './gguf/formats.ts';
import { ropeFactors } from './gguf/header.ts';
import { tokenizerFields } from './gguf/tokenizer.ts';
import { addedInFile, ggufNames, interleavedHeads, reorderedRows, shapeInFile } from './gguf-names.ts';
import { mergedValues, type TrainedChange, type WriteOptions } from './merge.ts';
import { selectTensors } from './read-checkpoint.ts';
import { rotaryFrequencies } from './rotary-tables.ts';
import type { CheckpointSource, CheckpointTensor } from './tensor-files.ts';

/** llama.cpp's number (`general.file_type`) for the format of most matrices of a file. */
const fileTypes = { f32: 0, f16: 1, q8_0: 7 } as const;

interface GgufExport extends WriteOptions {
  /** Shown by programs that load the file. */
  name: string;
  type: GgufType;
  /** Its template and special tokens go into the file. */
  format: ChatFormat;
}

/**
 * Writes a checkpoint after training as one GGUF file, which llama.cpp and what is built on it
 * load. Matrices become float16 or Q8_0 (float16 where rows are no whole blocks of 32), everything else float32.
 *
 * @param path Must not exist yet.
 * @throws EngineError when the base cannot be read, or llama.cpp has no name for the words of its tokenizer.
 */
export async function writeGguf(
  source: CheckpointSource,
  change: TrainedChange,
  path: string,
  { name, type, format, signal, onProgress }: GgufExport,
): Promise<void> {
  const config = readConfig(source);
  const { architecture, family } = config;
  await using files = await source.openTensors();
  const tensors = await selectTensors(files, config, signal);
  const shares = tensors.flatMap((tensor) =>
    ggufNames(tensor.name, family).map((own, index, { length }) => ({
      tensor,
      share: { index, of: length },
      shape: {
        name: own,
        dimensions: sharedRows(shapeInFile(tensor.dimensions), length),
        format: formatOf(tensor.dimensions, type),
      } satisfies GgufTensorShape,
    })),
  );
  const factors = factorsOf(architecture);
  const rope: GgufTensorShape = { name: ropeFactors, dimensions: [factors?.length ?? 0], format: 'F32' };
  const fields = {
    ...modelFields(config, { name, fileType: fileTypes[type] }),
    ...tokenizerFields(source, { vocabularySize: architecture.vocabularySize, format }),
  };
  async function* content(): AsyncGenerator<Uint8Array> {
    yield encodeGgufHeader(fields, [...(factors ? [rope] : []), ...shares.map(({ shape }) => shape)]);
    if (factors) yield* padded(rope, [pack('F32', factors)]);
    for (const [index, { tensor, share, shape }] of shares.entries()) {
      onProgress?.(index, shares.length);
      yield* padded(shape, packed(tensor, { change, share, shape, family, architecture, signal }));
    }
  }
  await writeDurably(path, content());
}

/** Writes an adapter as a GGUF file, which llama.cpp loads beside the base's file. Its numbers stay float32. */
export async function writeGgufAdapter(
  source: CheckpointSource,
  adapter: Adapter,
  path: string,
  { name }: { name: string },
): Promise<void> {
  const { architecture, family } = readConfig(source);
  const { heads, keyValueHeads, headWidth: rowsOfHead } = architecture;
  const shapes = adapterTensors(architecture, adapter).flatMap(({ name: own, dimensions }) =>
    ggufNames(own, family).map((name, index, { length }) => {
      // B alone has a row for each output.
      const of = own.endsWith('lora_B.weight') ? length : 1;
      const shape: GgufTensorShape = {
        name: name.replace(/lora_([AB])\.weight$/, (_, part: string) => `weight.lora_${part.toLowerCase()}`),
        dimensions: sharedRows(dimensions, of),
        format: 'F32',
      };
      return { own, shape, share: { index: index % of, of } };
    }),
  );
  const fields: Record<string, GgufField> = {
    'general.architecture': { type: 'string', value: family.gguf.name },
    'general.type': { type: 'string', value: 'adapter' },
    'general.name': { type: 'string', value: name },
    'general.file_type': { type: 'uint32', value: fileTypes.f32 },
    'adapter.type': { type: 'string', value: 'lora' },
    'adapter.lora.alpha': { type: 'float32', value: adapter.alpha },
  };
  async function* content(): AsyncGenerator<Uint8Array> {
    yield encodeGgufHeader(
      fields,
      shapes.map(({ shape }) => shape),
    );
    for (const { own, shape, share } of shapes) {
      const all = adapter.tensors.get(own) as Float32Array;
      const size = all.length / share.of;
      const values = all.subarray(share.index * size, (share.index + 1) * size);
      const isInterleaved = interleavedHeads(own, { family, heads, keyValueHeads }) !== null;
      const width = shape.dimensions.at(-1) ?? 1;
      yield* padded(shape, [
        pack('F32', isInterleaved ? reorderedRows(values, { rowsOfHead, width, to: 'file' }) : values),
      ]);
    }
  }
  await writeDurably(path, content());
}

/** float32 for everything that is no matrix: llama.cpp needs it for kernels of convolutions. */
const formatOf = (dimensions: readonly number[], type: GgufType): GgufTensorShape['format'] => {
  if (dimensions.length !== 2) return 'F32';
  return type === 'q8_0' && (dimensions.at(-1) ?? 0) % 32 === 0 ? 'Q8_0' : 'F16';
};

const sharedRows = ([rows = 1, ...others]: readonly number[], of: number): number[] => [rows / of, ...others];

interface Packing {
  change: TrainedChange;
  /** Which of several equal shares of the rows: see `ggufNames`. */
  share: { index: number; of: number };
  shape: GgufTensorShape;
  family: Family;
  architecture: Architecture;
  signal: AbortSignal | undefined;
}

async function* packed(
  tensor: CheckpointTensor,
  { change, share, shape: { format }, family, architecture, signal }: Packing,
): AsyncGenerator<Uint8Array> {
  const { heads, keyValueHeads, headWidth: rowsOfHead } = architecture;
  const isInterleaved = interleavedHeads(tensor.name, { family, heads, keyValueHeads }) !== null;
  const width = tensor.dimensions.at(-1) ?? 1;
  const added = addedInFile(tensor.name, family);
  // Pieces may end within a head.
  const whole = isInterleaved ? new Float32Array((tensor.dimensions[0] ?? 0) * width) : null;
  let filled = 0;
  const size = elementsOf(tensor.dimensions) / share.of;
  const values = between(mergedValues(tensor, change), share.index * size, (share.index + 1) * size);
  for await (const piece of values) {
    signal?.throwIfAborted();
    whole?.set(piece, filled);
    filled += piece.length;
    if (!whole) yield pack(format, added === 0 ? piece : piece.map((value) => value + added));
  }
  if (whole) yield pack(format, reorderedRows(whole, { rowsOfHead, width, to: 'file' }));
}

/** The numbers from `start` to `end` of those that come in pieces. */
async function* between(
  pieces: AsyncIterable<Float32Array>,
  start: number,
  end: number,
): AsyncGenerator<Float32Array> {
  let done = 0;
  for await (const piece of pieces) {
    const own = piece.subarray(Math.max(0, start - done), Math.max(0, end - done));
    done += piece.length;
    if (own.length > 0) yield own;
    if (done >= end) return;
  }
}

async function* padded(
  shape: GgufTensorShape,
  data: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  yield* data;
  yield padding(bytesOf(shape));
}

/** What llama.cpp multiplies the rotary frequencies with, in place of the numbers of Llama 3's scaling; null without it. */
function factorsOf({ positions, headWidth }: Architecture): Float32Array | null {
  if (positions === 'learned' || !positions.scaling || typeof positions.scaling === 'number') return null;
  const plain = rotaryFrequencies({ ...positions, scaling: null }, headWidth);
  const scaled = rotaryFrequencies(positions, headWidth);
  return plain.map((frequency, index) => frequency / (scaled[index] as number));
}

function modelFields(
  { architecture, family }: CheckpointConfig,
  { name, fileType }: { name: string; fileType: number },
): Record<string, GgufField> {
  const { positions, headWidth } = architecture;
  const number = (value: number): GgufField => ({ type: 'uint32', value });
  const fraction = (value: number): GgufField => ({ type: 'float32', value });
  const own = {
    context_length: number(architecture.contextLength),
    embedding_length: number(architecture.width),
    block_count: number(architecture.layers),
    feed_forward_length: number(architecture.mlpWidth),
    vocab_size: number(architecture.vocabularySize),
    'attention.head_count': number(architecture.heads),
    'attention.head_count_kv': number(architecture.keyValueHeads),
    'attention.key_length': number(headWidth),
    'attention.value_length': number(headWidth),
    'attention.layer_norm_rms_epsilon': fraction(architecture.normEpsilon),
    'rope.dimension_count': number(headWidth),
    ...(positions === 'learned' ? {} : { 'rope.freq_base': fraction(positions.theta) }),
    ...family.gguf.fields(architecture),
  };
  return {
    'general.architecture': { type: 'string', value: family.gguf.name },
    'general.type': { type: 'string', value: 'model' },
    'general.name': { type: 'string', value: name },
    'general.file_type': number(fileType),
    'general.quantization_version': number(2),
    ...Object.fromEntries(Object.entries(own).map(([key, value]) => [`${family.gguf.name}.${key}`, value])),
  };
}
