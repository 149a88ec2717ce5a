import type { ByteSource } from '../../json/byte-source.ts';
import { memberSource } from '../../json/parse.ts';

/**
 * The seed of a request as its text writes it. Numbers of JavaScript hold whole numbers up to 2^53 alone, so that
 * `parsed` may have been rounded: seeds next to each other, as a group of samples has them, would then be the same.
 */
export async function exactSeed(
  body: ByteSource,
  parsed: number | undefined,
): Promise<number | bigint | undefined> {
  if (parsed === undefined || Number.isSafeInteger(parsed) || !Number.isInteger(parsed)) return parsed;
  const source = (await memberSource(body, 'seed')) ?? '';
  return BigInt(/^-?\d{1,40}$/.test(source) ? source : parsed);
}
