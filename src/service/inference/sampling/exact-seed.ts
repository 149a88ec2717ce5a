import { isObject } from '../../body.ts';

/**
 * The seed of a request as its text writes it. Numbers of JavaScript hold whole numbers up to 2^53 alone, so that
 * `parsed` may have been rounded: seeds next to each other, as a group of samples has them, would then be the same.
 */
export function exactSeed(body: string, parsed: number | undefined): number | bigint | undefined {
  if (parsed === undefined || Number.isSafeInteger(parsed) || !Number.isInteger(parsed)) return parsed;
  const sources = new Map<unknown, string>();
  const root: unknown = JSON.parse(
    body,
    function (this: unknown, key, value: unknown, ...context: unknown[]) {
      const [details] = context;
      if (key === 'seed' && isObject(details) && typeof details.source === 'string')
        sources.set(this, details.source);
      return value;
    },
  );
  const source = sources.get(root) ?? '';
  return BigInt(/^-?\d+$/.test(source) ? source : parsed);
}
