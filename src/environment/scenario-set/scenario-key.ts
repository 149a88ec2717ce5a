import { canonicalJson, sha256 } from '../../util/json.ts';
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
    if (isKey(scenario.id)) return String(scenario.id);
  }
  if (['undefined', 'function', 'symbol'].includes(typeof scenario)) throw noKey(`it is ${typeof scenario}`);
  try {
    return sha256(canonicalJson(scenario)).slice(0, 20);
  } catch (cause) {
    throw noKey(String(cause), cause);
  }
}

/** @throws ScenarioError for a key that is neither a number nor a non-empty text. */
export function keyWith<Scenario>(scenario: Scenario, key: KeyFunction<Scenario> | undefined): string {
  if (!key) return scenarioKey(scenario);
  const found: unknown = key(scenario);
  if (isKey(found)) return String(found);
  throw new ScenarioError(
    'invalid_scenario_set',
    `The key function returned ${JSON.stringify(found)} for a scenario. Return a number or a non-empty text.`,
  );
}

/** A number in [0, 1) from a hash of the text, uniformly distributed. */
export function hashToUnit(text: string): number {
  return Number.parseInt(sha256(text).slice(0, 12), 16) / 2 ** 48;
}

const isKey = (value: unknown): value is string | number =>
  typeof value === 'number' || (typeof value === 'string' && value !== '');

function noKey(why: string, cause?: unknown): ScenarioError {
  return new ScenarioError(
    'invalid_scenario_set',
    `A scenario has no \`id\` and cannot be written as JSON (${why}). Give it an \`id\`, or give the set \`key\`.`,
    { cause },
  );
}
