import {
  type ExactJson,
  exactText,
  JsonNumber,
  parseExactJson,
  rememberExact,
  textEnd,
} from '../../util/exact-json.ts';
import { isObject } from '../../util/json.ts';

/**
 * Remembers the text of the schemas of tools in a parsed body, group, trajectory or line of training data, where
 * JavaScript's values lose some of it: digits, `1.0`, the order of keys that are numbers.
 */
export function rememberTools(value: unknown, text: string): void {
  if (!text.includes('"tools"')) return;
  const exact = new Map<string, ExactJson>();
  for (const list of listsIn(text))
    if (losesText(list.exact)) exact.set(JSON.stringify(list.parsed), list.exact);
  if (exact.size === 0) return;
  for (const tools of toolsIn(value)) {
    const known = exact.get(JSON.stringify(tools));
    if (known !== undefined) rememberExact(tools, known);
  }
}

/** The lists of tools that the text may hold. The text is known to be JSON, so the bracket ends where it should. */
function* listsIn(text: string): Generator<{ parsed: unknown; exact: ExactJson }> {
  for (const { index, 0: beginning } of text.matchAll(/(?<!\\)"tools"\s*:\s*(?=\[)/g)) {
    const start = index + beginning.length;
    const source = text.slice(start, endOf(text, start));
    if (mayLoseText.test(source)) yield { parsed: JSON.parse(source), exact: parseExactJson(source) };
  }
}

/** A number, or a key that JavaScript would move. */
const mayLoseText = /"\d+"\s*:|[[:,]\s*-?\d/;

function endOf(text: string, start: number): number {
  const tokens = /["[\]{}]/g;
  tokens.lastIndex = start;
  let depth = 0;
  for (let found = tokens.exec(text); found; found = tokens.exec(text)) {
    if (found[0] === '"') tokens.lastIndex = textEnd(text, found.index);
    if (found[0] === '[' || found[0] === '{') depth++;
    if (found[0] === ']' || found[0] === '}') depth--;
    if (depth === 0) return tokens.lastIndex;
  }
  return text.length;
}

function losesText(exact: ExactJson): boolean {
  if (exact instanceof JsonNumber) return String(Number(exact.source)) !== exact.source;
  if (Array.isArray(exact)) return exact.some(losesText);
  return exact instanceof Map && [...exact].some(([key, item]) => /^\d+$/.test(key) || losesText(item));
}

/** The lists of tools in a body, group, trajectory or line of training data, in order. */
function* toolsIn(value: unknown): Generator<unknown[]> {
  if (Array.isArray(value)) for (const item of value) yield* toolsIn(item);
  if (!isObject(value)) return;
  if (Array.isArray(value.tools)) yield value.tools;
  if (Array.isArray(value.trajectory_groups)) yield* toolsIn(value.trajectory_groups);
  if (Array.isArray(value.trajectories)) yield* toolsIn(value.trajectories);
  if (Array.isArray(value.additional_histories)) yield* toolsIn(value.additional_histories);
}

/** JSON of a trajectory or group on one line, with the text of its tools. */
export function textWithTools(value: unknown): string {
  return toolTexts(value).some((text) => text !== null) ? exactText(value) : JSON.stringify(value);
}

/** The text of each list of tools that JavaScript's values lose; null for the others. */
export const toolTexts = (value: unknown): (string | null)[] =>
  [...toolsIn(value)].map((tools) => {
    const text = exactText(tools);
    return text === JSON.stringify(tools) ? null : text;
  });

/** Remembers the texts that another thread knew of the same value, except one that would take long to read. */
export function rememberTexts(value: unknown, texts: readonly (string | null)[], maxLength: number): void {
  for (const [index, tools] of [...toolsIn(value)].entries()) {
    const text = texts[index];
    if (text && text.length <= maxLength) rememberExact(tools, parseExactJson(text));
  }
}
