import { z } from 'zod';
import type { LoopEnvironmentOptions, RolloutEnvironmentOptions, SharedOptions } from './options.ts';

type Shared = SharedOptions<z.ZodType, unknown, unknown>;
type OfRollout = Exclude<
  keyof RolloutEnvironmentOptions<z.ZodType, unknown, unknown>,
  keyof Shared | 'prompt'
>;
type OfPieces = Exclude<keyof LoopEnvironmentOptions<z.ZodType, unknown, unknown>, keyof Shared | 'rollout'>;

/** Every option there is, held against the types. */
const shared: Record<keyof Shared, true> = {
  name: true,
  scenario: true,
  limits: true,
  setup: true,
  cleanup: true,
  cleanupTimeoutMs: true,
  rewards: true,
  groupRewards: true,
  credit: true,
};
const ofRollout: Record<OfRollout, true> = {
  rollout: true,
  atLimit: true,
  onError: true,
};
const ofPieces: Record<OfPieces, true> = {
  prompt: true,
  system: true,
  tools: true,
  toolExecution: true,
  onToolError: true,
  output: true,
  settings: true,
  observe: true,
  stop: true,
  onError: true,
};

/**
 * For callers whom no type has checked.
 * @throws TypeError for an option that the form of environment does not have, and for a scenario that is no schema.
 */
export function checkNames(options: object & { name: string; scenario: unknown; rollout?: unknown }): void {
  const environment = `environment "${options.name}"`;
  const own = options.rollout ? ofRollout : ofPieces;
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || name in shared || name in own) continue;
    const other = name in ofRollout || name in ofPieces;
    const why = other
      ? `belongs to the form with \`${options.rollout ? 'prompt' : 'rollout'}\`, and this one has \`${options.rollout ? 'rollout' : 'prompt'}\``
      : `is no option; there are ${Object.keys({ ...shared, ...own }).join(', ')}`;
    throw new TypeError(`\`${name}\` of ${environment} ${why}.`);
  }
  if (!(options.scenario instanceof z.ZodType))
    throw new TypeError(
      `\`scenario\` of ${environment} is no zod schema (zod 4); give one, such as z.object({}).`,
    );
}

/** @throws TypeError for a reward that is neither a function nor one with its weight. */
export function checkRewards(rewards: Readonly<Record<string, unknown>>, environment: string): void {
  for (const [name, given] of Object.entries(rewards)) {
    if (typeof given === 'function') continue;
    const weighed = typeof given === 'object' && given !== null && 'reward' in given ? given.reward : null;
    if (typeof weighed !== 'function')
      throw new TypeError(
        `The reward "${name}" of environment "${environment}" is none; give a function, or { weight, reward }.`,
      );
  }
}
