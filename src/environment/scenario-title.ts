import { isObject } from '../util/json.ts';
import { describeThrown } from './thrown.ts';

/** The title that an environment gives a scenario; undefined without the option. A function that throws spoils no rollout. */
export function givenTitle<Scenario>(
  title: ((scenario: Scenario) => string) | undefined,
  scenario: Scenario,
): string | undefined {
  if (!title) return undefined;
  try {
    return String(title(scenario));
  } catch (error) {
    return `\`title\` threw: ${describeThrown(error)}`;
  }
}

const maxTitle = 200;
const maxDepth = 6;
/** Fields whose text is no scenario's own. */
const passedOver = ['system', 'type', 'role'];

/**
 * What lists call a scenario, in one line: the title that was recorded, else its first text of several words (of a list
 * of messages, the first of the user), else its first text, else its JSON.
 */
export function titleOfScenario(scenario: unknown, title?: string): string {
  const texts = [...textsIn(scenario, maxDepth)];
  const found =
    title || texts.find((text) => /\S\s+\S/.test(text)) || texts.find((text) => text.trim() !== '');
  return inOneLine(found ?? scenario);
}

/** A value in one line of at most 200 characters: a text as it is, anything else as JSON. */
export function inOneLine(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'undefined');
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line.length > maxTitle ? `${line.slice(0, maxTitle)}…` : line;
}

/** Messages of others than the user are usually the same for all scenarios. */
function* textsIn(value: unknown, depth: number): Generator<string, undefined> {
  if (typeof value === 'string') yield value;
  if (depth === 0 || typeof value !== 'object' || value === null) return;
  if (isObject(value) && typeof value.role === 'string') {
    if (value.role === 'user') yield* textsIn(value.content, depth - 1);
    return;
  }
  for (const [name, inner] of Object.entries(value))
    if (!passedOver.includes(name)) yield* textsIn(inner, depth - 1);
}
