import { sha256 } from '../../util/json.ts';

/** A reward as it was defined, to tell whether two records were scored alike. */
interface RewardCode {
  weight: number;
  /**
   * Digest of the function's source text without white space. What the function calls, and the values it closes over,
   * are not part of it.
   */
  code: string;
}

/** Rewards and group rewards by name. */
export type RewardCodes = Readonly<Record<string, RewardCode>>;

export const rewardCodes = (rewards: Readonly<Record<string, object>>): RewardCodes =>
  Object.fromEntries(Object.entries(rewards).map(([name, reward]) => [name, codeOf(reward)]));

function codeOf(reward: object): RewardCode {
  const { weight = 1, reward: scores = reward }: { weight?: number; reward?: object } =
    typeof reward === 'function' ? {} : reward;
  return { weight, code: codeDigest(scores) };
}

/** Digest of a function's source text without white space. */
export const codeDigest = (code: object): string => sha256(String(code).replace(/\s+/g, '')).slice(0, 12);

/** The rewards that differ, in words; none where a record does not know its rewards. */
export function rewardChanges(a: unknown, b: unknown): string[] {
  if (!isCodes(a) || !isCodes(b)) return [];
  const [before, after] = [new Map(Object.entries(a)), new Map(Object.entries(b))];
  return [...new Set([...before.keys(), ...after.keys()])].flatMap((name) => {
    const [was, is] = [before.get(name), after.get(name)];
    if (!was) return [`reward "${name}" is new`];
    if (!is) return [`reward "${name}" is gone`];
    return [
      ...(was.code === is.code ? [] : [`reward "${name}" has another function`]),
      ...(was.weight === is.weight ? [] : [`reward "${name}" has weight ${is.weight} and had ${was.weight}`]),
    ];
  });
}

const isCodes = (value: unknown): value is RewardCodes =>
  typeof value === 'object' &&
  value !== null &&
  Object.values(value).every((one) => typeof one === 'object' && one !== null && 'code' in one);
