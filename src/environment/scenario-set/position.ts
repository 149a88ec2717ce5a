import { z } from 'zod';
import { ScenarioPositionError } from './errors.ts';
import type { JsonValue, ScenarioResult } from './scenario-source.ts';
import { readState, type StageDescription } from './stage.ts';

const positionSchema = z.object({
  set: z.record(z.string(), z.unknown()),
  state: z.unknown(),
  observed: z.array(z.object({ key: z.string(), rewards: z.array(z.number()) })),
});

/** What a position holds: which set it is of, where that stands, and results that wait for a take to end. */
export function writePosition(
  set: StageDescription,
  state: JsonValue,
  observed: readonly ScenarioResult[],
): JsonValue {
  return { set, state, observed: observed.map(({ key, rewards }) => ({ key, rewards: [...rewards] })) };
}

/** @throws ScenarioPositionError where the position is none, or of another set: the first difference is named. */
export function readPosition(
  position: unknown,
  set: StageDescription,
): { state: unknown; observed: ScenarioResult[] } {
  const { set: saved, state, observed } = readState('ScenarioSet', positionSchema, position);
  const difference = differenceOf(saved, set, String(set.kind));
  if (difference) {
    throw new ScenarioPositionError(
      `The position is of another set: ${difference}. Seek with the set that the position was taken from, or begin ` +
        'without a position.',
    );
  }
  return { state, observed };
}

function differenceOf(saved: unknown, here: unknown, where: string): string | null {
  if (isRecord(saved) && isRecord(here)) {
    if (saved.kind !== here.kind)
      return `it has \`${String(saved.kind)}\` where this set has \`${String(here.kind)}\``;
    const place = typeof here.kind === 'string' ? here.kind : where;
    for (const name of new Set([...Object.keys(saved), ...Object.keys(here)])) {
      const difference = differenceOf(
        saved[name],
        here[name],
        name === 'of' ? place : `${name}\` of \`${place}`,
      );
      if (difference) return difference;
    }
    return null;
  }
  if (Array.isArray(saved) && Array.isArray(here) && saved.length === here.length) {
    for (const [index, item] of saved.entries()) {
      const difference = differenceOf(item, here[index], `${where}[${index}]`);
      if (difference) return difference;
    }
    return null;
  }
  const [was, is] = [JSON.stringify(saved), JSON.stringify(here)];
  return was === is ? null : `\`${where}\` is ${was} in the position and ${is} here`;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
