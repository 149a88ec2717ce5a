import { refuseHeavyJson } from '../../json/shape.ts';

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
    refuseHeavyJson(text);
    return JSON.stringify(JSON.parse(text));
  } catch {
    return text;
  }
}
