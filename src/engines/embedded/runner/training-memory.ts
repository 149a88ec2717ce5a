import { largestOf } from '../../../util/extremes.ts';
import { sumOf } from '../../../util/sums.ts';
import { EngineError } from '../../engine.ts';
import { keptShapes, lengthsOf, sized } from '../graphs/kept-shapes.ts';
import { type Architecture, elementsOf, kindsOf, type LayerKind } from '../weights/architecture.ts';

/** Numbers of a chunk's logits: few, because sixteen of their size are in memory at once. */
const headNumbers = 2 ** 19;
/** Fewer rows would read the matrix of the head too often. */
const leastHeadRows = 64;

/** Decisions whose logits are computed together. */
export const headRows = ({ vocabularySize }: Architecture): number =>
  Math.max(leastHeadRows, Math.floor(headNumbers / vocabularySize));

/** Padded tokens of one run of the graphs. The largest is the fastest size; the least takes 5 % longer a token. */
export const tokensPerRun = { least: 512, largest: 1024 };

/** Padded sequences that run together. */
interface BatchSize {
  sequences: number;
  /** Padded length of each. */
  time: number;
}

/**
 * How often each kind of value is in memory at the largest, in the forward and backward pass of a layer and of the head
 * together: each session keeps the memory of its largest run. Fitted to the memory of a process that trains two layers of
 * SmolLM2-135M's shape (onnxruntime-node 1.30.0, batches of 1 x 512 to 1 x 2048: within 6 %), and of one that trains two
 * convolutions of LFM2-350M's (the same: within 2 %).
 */
const alive = {
  /** Attention scores and what they become. */
  scores: 11,
  /** Hidden states of the MLP. */
  hidden: 12,
  /** The same, of one matrix for gate and up: its product and the gradient of that too, each of twice the width. */
  joinedHidden: 16,
  /** States of the width of the heads. */
  heads: 12,
  /** States of the model's width. */
  states: 16,
  /** What the taps of a convolution see. */
  windows: 25,
  logits: 16,
};

/** Numbers that the passes of one layer of a kind have in memory. */
function layerNumbers(architecture: Architecture, kind: LayerKind, { sequences, time }: BatchSize): number {
  const { width, heads, keyValueHeads, headWidth, mlpWidth, convolutions } = architecture;
  const hidden = architecture.joinedGate ? alive.joinedHidden : alive.hidden;
  const common = hidden * mlpWidth + alive.states * width;
  const tokens = sequences * time;
  if (kind === 'convolution') return tokens * (common + alive.windows * (convolutions?.taps ?? 0) * width);
  const ofHeads = alive.heads * (heads + keyValueHeads) * headWidth;
  return tokens * (common + ofHeads + alive.scores * heads * time);
}

/**
 * Bytes that training needs for a micro-batch beside the weights: the inputs of all layers, the passes of one layer of
 * each kind, and a chunk of the head. Attention takes the most when sequences are long: its scores are heads * time^2 for
 * each sequence, of one layer at a time.
 */
export function trainingBytes(architecture: Architecture, { sequences, time }: BatchSize): number {
  const { width, layers, vocabularySize } = architecture;
  const inputs = (layers + 2) * sequences * time * width;
  const passes = sumOf(kindsOf(architecture), (kind) =>
    layerNumbers(architecture, kind, { sequences, time }),
  );
  const logits = alive.logits * headRows(architecture) * vocabularySize;
  return 4 * (inputs + passes + logits);
}

/** Bytes that one layer's forward pass keeps for the backward pass, beside its input: of the kind that keeps most. */
export function keptBytes(architecture: Architecture, size: BatchSize): number {
  const lengths = lengthsOf(architecture, size);
  const numbersOf = (kind: LayerKind) => {
    let numbers = 0;
    for (const shape of keptShapes(architecture, { kind, selects: false }).values())
      numbers += elementsOf(sized(shape, lengths));
    return numbers;
  };
  return 4 * largestOf(kindsOf(architecture).map(numbersOf));
}

/**
 * Layers whose forward pass can keep what the backward pass needs, so that this need not compute it again. Layers that do
 * not keep it run in sessions of their own, which keep as much memory as the others.
 */
export function keptLayers(architecture: Architecture, size: BatchSize, bytes: number): number {
  const free = bytes - 2 * trainingBytes(architecture, size);
  return Math.max(0, Math.min(architecture.layers, Math.floor(free / keptBytes(architecture, size))));
}

/** What training takes in all where as many layers keep their forward pass as some bytes allow. */
export function trainingBytesWithKept(architecture: Architecture, size: BatchSize, bytes: number): number {
  const own = trainingBytes(architecture, size);
  const kept = keptLayers(architecture, size, bytes);
  return kept === 0 ? own : 2 * own + kept * keptBytes(architecture, size);
}

/**
 * The most sequences of a length that fit into some bytes. Throws an `EngineError` when not even one does.
 */
export function sequencesThatFit(architecture: Architecture, time: number, bytes: number): number {
  const needed = trainingBytes(architecture, { sequences: 1, time });
  if (needed > bytes)
    throw new EngineError(
      'too_long',
      `Training a sequence of ${time} tokens needs ${gigabytes(needed)} GB beside the weights, and ${gigabytes(bytes)} GB are allowed. Shorten the sequence, allow more (trainingBytes, or serve --training-memory), or train on a machine with more memory.`,
    );
  // Each further sequence needs as much.
  const further = trainingBytes(architecture, { sequences: 2, time }) - needed;
  return 1 + Math.floor((bytes - needed) / further);
}

/**
 * How many sequences of a length are trained together: as many as run fastest, if they fit into some bytes. Throws an
 * `EngineError` when not even one fits.
 */
export function batchSizeOf(architecture: Architecture, time: number, bytes: number): number {
  const fitting = sequencesThatFit(architecture, time, bytes);
  return Math.min(fitting, Math.max(1, Math.floor(tokensPerRun.largest / time)));
}

const gigabytes = (bytes: number) => (bytes / 1e9).toFixed(2);
