import { createHash } from 'node:crypto';
import { canonicalJson } from '../../util/json.ts';
import { ScenarioError } from '../errors.ts';

/** Gives the key of a scenario, in place of its `id` or the hash of its content. */
export type KeyFunction<Scenario> = (scenario: Scenario) => string | number;

/**
 * The key of a scenario: its `id` if that is a number or a non-empty text, else a hash of its JSON. The order of fields
 * does not change the hash.
 * @throws ScenarioError for a scenario that is not JSON and has no `id`.
 */
export function scenarioKey(scenario: unknown): string {
  if (typeof scenario === 'object' && scenario !== null && 'id' in scenario) {
    const { id } = scenario;
    if (typeof id === 'number' || (typeof id === 'string' && id !== '')) return String(id);
  }
  if (['undefined', 'function', 'symbol'].includes(typeof scenario)) throw noKey(`it is ${typeof scenario}`);
  try {
    return digest(canonicalJson(scenario)).slice(0, 20);
  } catch (cause) {
    throw noKey(String(cause), cause);
  }
}

/** @throws ScenarioError for a key that is neither a number nor a non-empty text. */
export function keyWith<Scenario>(scenario: Scenario, key: KeyFunction<Scenario> | undefined): string {
  if (!key) return scenarioKey(scenario);
  const given: unknown = key(scenario);
  if (typeof given === 'number' || (typeof given === 'string' && given !== '')) return String(given);
  throw new ScenarioError(
    'invalid_scenario_set',
    `The key function gave ${JSON.stringify(given)} for a scenario; give a number or a text that is not empty.`,
  );
}

/** A number in [0, 1) from a hash of the text, uniformly distributed. */
export function shareOf(text: string): number {
  return Number.parseInt(digest(text).slice(0, 12), 16) / 2 ** 48;
}

/** SHA-256 as hexadecimal text. */
export function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function noKey(why: string, cause?: unknown): ScenarioError {
  return new ScenarioError(
    'invalid_scenario_set',
    `A scenario has no \`id\` and cannot be written as JSON (${why}). Give it an \`id\`, or give the set \`key\`.`,
    { cause },
  );
}
