import { join } from 'node:path';
import { EngineError } from '../engine.ts';
import type { EmbeddedBaseModel } from './base-models.ts';
import {
  adapterWeightsFile,
  maxRank,
  readAdapter,
  readBaseWeights,
  targetModules,
} from './checkpoint/adapter.ts';
import { allProjections, modulesOf, type Projection } from './checkpoint/tensors.ts';
import { adapterVector, type LoraSettings } from './runner/adapter-vector.ts';
import type { Architecture } from './weights/architecture.ts';

/** The adapters that training makes. A target's matrix W acts as W + B A * alpha / rank. */
export interface LoraOptions {
  /** Default 16. */
  rank?: number;
  /** Default twice the rank. */
  alpha?: number;
  /**
   * Names of matrices as PEFT's `target_modules` has them. Default all: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj,
   * down_proj; of LFM2 q_proj, k_proj, v_proj, out_proj, in_proj, w1, w3, w2; of Granite 4.0 input_linear and output_linear in
   * place of the last three.
   */
  targets?: readonly string[];
}

/** The adapter in a folder: its settings and its values. Rejects with the signal's reason when aborted. */
export async function readStart(
  folder: string,
  architecture: Architecture,
  { lora: given, signal }: { lora: LoraOptions; signal: AbortSignal | undefined },
): Promise<Pick<EmbeddedBaseModel, 'trained' | 'start'>> {
  const adapter = await readAdapter(folder, architecture, signal);
  const { rank, alpha, targets } = adapter;
  const named = (projections: readonly Projection[]) =>
    targetModules(architecture, projections).toSorted().join(', ');
  for (const [name, [wanted, own]] of Object.entries({
    rank: [given.rank, rank],
    alpha: [given.alpha, alpha],
    targets: [given.targets && named(targetsOf(given.targets, architecture)), named(targets)],
  }))
    if (wanted !== undefined && wanted !== own)
      throw badOption(
        `\`lora.${name}\` is ${wanted}, but the adapter in ${folder} has ${own}. Leave it out.`,
      );
  return { trained: { rank, alpha, targets }, start: adapterVector(architecture, adapter) };
}

/** Adapters of martingale name the weights that they belong to. */
export async function checkBase(adapter: string, folder: string, weightsHash: string): Promise<void> {
  const expected = await readBaseWeights(join(adapter, adapterWeightsFile));
  if (expected !== undefined && expected !== weightsHash)
    throw badOption(
      `the adapter in ${adapter} was trained on weights that differ from ${folder}. Give the checkpoint that it was trained on.`,
    );
}

const defaultRank = 16;

export function checkLora({ rank = defaultRank, alpha = 2 * rank }: LoraOptions): void {
  if (!isWholeNumber(rank, maxRank))
    throw badOption(`\`lora.rank\` is ${rank}. Pass a whole number from 1 to ${maxRank}.`);
  if (!(Number.isFinite(alpha) && alpha > 0))
    throw badOption(`\`lora.alpha\` is ${alpha}. Pass a number above 0.`);
}

export function loraSettings(
  { rank = defaultRank, alpha = 2 * rank, targets }: LoraOptions,
  architecture: Architecture,
): LoraSettings {
  return { rank, alpha, targets: targets ? targetsOf(targets, architecture) : allProjections(architecture) };
}

function targetsOf(names: readonly string[], architecture: Architecture): Projection[] {
  const modules = modulesOf(architecture);
  const unknown = names.find((name) => !modules.has(name));
  if (unknown !== undefined || names.length === 0)
    throw badOption(
      `\`lora.targets\` has ${unknown ?? 'no names'}. Pass some of ${[...modules.keys()].join(', ')}.`,
    );
  const chosen = names.flatMap((name) => modules.get(name) ?? []);
  return allProjections(architecture).filter((projection) => chosen.includes(projection));
}

export const isWholeNumber = (value: number, most: number) =>
  Number.isInteger(value) && value >= 1 && value <= most;

export const badOption = (what: string) => new EngineError('bad_option', `\`checkpoints\`: ${what}`);
