import { type AskedCall, canonical } from './record-calls-line.ts';

/** Longest value that a message quotes. */
const excerptLength = 80;
const shownDifferences = 3;

/** Where two values differ, as paths with both sides, in order. */
export function differences(
  a: unknown,
  b: unknown,
  path: string,
): { path: string; a: unknown; b: unknown }[] {
  if (a === b) return [];
  if (!isObject(a) || !isObject(b) || Array.isArray(a) !== Array.isArray(b)) return [{ path, a, b }];
  const names = [...new Set([...Object.keys(a), ...Object.keys(b)])];
  return names.flatMap((name) =>
    differences(
      Reflect.get(a, name),
      Reflect.get(b, name),
      Array.isArray(a) ? `${path}[${name}]` : path === '' ? name : `${path}.${name}`,
    ),
  );
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

const quoted = (value: unknown): string => {
  const text = value === undefined ? 'absent' : JSON.stringify(value);
  return text.length > excerptLength ? `${text.slice(0, excerptLength)}…` : text;
};

/** The recorded call that differs in fewest places, and where. */
export function describeNearest(asked: AskedCall, recorded: readonly AskedCall[]): string {
  const wanted = canonical(asked.request);
  const compared = recorded.map((call, at) => ({
    at,
    found: [
      ...differences(wanted, canonical(call.request), ''),
      ...differences(asked.rollout, call.rollout, 'the seed of its rollout'),
    ],
  }));
  const nearest = compared.sort((a, b) => a.found.length - b.found.length)[0];
  if (!nearest) return 'the record is empty.';
  const shown = nearest.found
    .slice(0, shownDifferences)
    .map(({ path, a, b }) => `${path} is ${quoted(a)} and was ${quoted(b)}`)
    .join('; ');
  const left = nearest.found.length - shownDifferences;
  return `the nearest is call ${nearest.at + 1} of ${recorded.length}, where ${shown}${left > 0 ? `; and ${left} more` : ''}.`;
}
