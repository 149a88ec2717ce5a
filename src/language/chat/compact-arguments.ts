import { requestLimits } from '../../contract/index.ts';

/** Characters of the arguments of one message's calls that are parsed: some milliseconds. */
const mostParsed = 65_536;

/**
 * Makes arguments what models write, JSON without spaces, call by call of one message. What is no JSON, is nested more
 * deeply than a body may be, or is behind 65,536 characters of the same message stays as it is: the same in sampling
 * and in training, whatever else there is in hand.
 */
export function compactingCalls(): (text: string) => string {
  let characters = 0;
  return (text) => {
    characters += text.length;
    return characters > mostParsed ? text : compactJson(text);
  };
}

function compactJson(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    return isDeeperThan(value, requestLimits.depth) ? text : JSON.stringify(value);
  } catch {
    return text;
  }
}

/** Whether arrays and objects stand in each other more than `limit` deep. */
function isDeeperThan(value: unknown, limit: number): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; depth <= limit; depth++) {
    level = level.filter((part) => typeof part === 'object' && part !== null);
    if (level.length === 0) return false;
    level = level.flatMap((part) => Object.values(Object(part)));
  }
  return true;
}
