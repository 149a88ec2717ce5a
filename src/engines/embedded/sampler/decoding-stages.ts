import { getOrInsert } from '../../../util/get-or-insert.ts';
import { rotaryTables } from '../checkpoint/rotary-tables.ts';
import { nextLayer } from '../graphs/decoding-graphs.ts';
import type { LoraSettings } from '../runner/adapter-vector.ts';
import type { BaseWeights } from '../runner/layer-feeds.ts';
import type { Feeds, Runtime, Session } from '../runtime.ts';
import { type Architecture, isLocal, kindOf } from '../weights/architecture.ts';

/** An adapter; `vector` is null for the checkpoint without one, which shares its packed weights with adapters. */
export interface DecodedAdapter {
  lora: LoraSettings;
  vector: Float32Array | null;
}

/** Whether a stage rotates queries and keys of the layer `next`, which needs the positions of tokens. */
export const takesPositions = (architecture: Architecture, next: number): boolean =>
  architecture.positions !== 'learned' &&
  next < architecture.layers &&
  kindOf(architecture, next) === 'attention';

/** A graph of a decoding step, with the weights that are its inputs. */
export interface DecodingStage {
  session: Session;
  weights: Feeds;
  /** Whether `positions` is an input too. */
  takesPositions: boolean;
}

/** The stages of a step in their order: up to the first layer's mixing, then one for each layer, the last with the head. */
export interface DecodingStages {
  stages: readonly DecodingStage[];
  release(): Promise<void>;
}

const partsBeforeMixing = ['input_layernorm', 'q_proj', 'k_proj', 'v_proj', 'q_norm', 'k_norm', 'in_proj'];

/** Whether a layer has a part, or what is named `<part>.` something, before its attention or convolution. */
export const isBeforeMixing = (name: string): boolean =>
  partsBeforeMixing.some((part) => name === part || name.startsWith(`${part}.`));

/** Splits a layer's weights into those before its attention or convolution, under their names there, and those after it. */
export function split(feeds: Feeds): { before: Feeds; after: Feeds } {
  const before: Feeds = {};
  const after: Feeds = {};
  for (const [name, tensor] of Object.entries(feeds))
    if (isBeforeMixing(name)) before[`${nextLayer}${name}`] = tensor;
    else after[name] = tensor;
  return { before, after };
}

/** The tables of rotary positions take a while to compute, and all adapters of a checkpoint share them. */
const tablesOf = new WeakMap<BaseWeights, ReturnType<typeof makeTables>>();

/** For the layers with global and with local attention; null without rotary positions. */
function makeTables({ positions, local, headWidth, contextLength }: Architecture) {
  if (positions === 'learned') return null;
  const global = rotaryTables(positions, headWidth, contextLength);
  return { global, local: local ? rotaryTables(local.positions, headWidth, contextLength) : global };
}

/** The tables of rotary positions of each layer, if it has any. */
export function rotaryFeeds(runtime: Runtime, base: BaseWeights): Feeds[] {
  const { architecture } = base;
  const { layers, headWidth, contextLength } = architecture;
  const tables = getOrInsert(tablesOf, base, () => makeTables(architecture));
  const table = (values: Float32Array) => runtime.constant(values, [contextLength, headWidth / 2]);
  const feeds = ({ cosines, sines }: ReturnType<typeof rotaryTables>): Feeds => ({
    cosines: table(cosines),
    sines: table(sines),
  });
  const global = tables ? feeds(tables.global) : {};
  const local = tables && tables.local !== tables.global ? feeds(tables.local) : global;
  return Array.from({ length: layers }, (_, layer) => {
    if (kindOf(architecture, layer) === 'convolution') return {};
    return isLocal(architecture, layer) ? local : global;
  });
}
