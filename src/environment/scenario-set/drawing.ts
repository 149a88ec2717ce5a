import { z } from 'zod';
import { untilAborted } from '../../util/deadline.ts';
import { isObject } from '../../util/json.ts';
import { positionError } from '../errors.ts';
import type { DrawnScenario, JsonValue, ScenarioResult } from './scenario-source.ts';
import {
  breathe,
  type Cursor,
  drawsPerBreath,
  readState,
  type Stage,
  type StageDescription,
} from './stage.ts';

/** Draws from a stage, one take after the other. A take that fails or is aborted has no effect on the position. */
export class Drawing<Scenario> {
  readonly #stage: Stage<Scenario>;
  #cursor: Cursor<Scenario>;
  #turn: Promise<unknown> = Promise.resolve();
  /** State before a take that is running or has failed. After a failure the next take restores it. */
  #before: { state: JsonValue } | undefined;
  /** Results that wait until the cursor can take them. */
  #observed: ScenarioResult[] = [];

  constructor(stage: Stage<Scenario>) {
    this.#stage = stage;
    this.#cursor = stage.open(0);
  }

  take(count: number, signal: AbortSignal | undefined): Promise<DrawnScenario<Scenario>[]> {
    return untilAborted(
      this.#inTurn(() => this.#take(count, signal)),
      signal,
    );
  }

  position(): JsonValue {
    const { state } = this.#before ?? { state: this.#cursor.state() };
    return writePosition(this.#stage.describe(), state, this.#observed);
  }

  seek(position: unknown): Promise<void> {
    return this.#inTurn(async () => {
      const { state, observed } = readPosition(position, this.#stage.describe());
      const cursor = this.#stage.open(0);
      await cursor.restore(state);
      this.#replaceCursor(cursor);
      this.#observed = observed;
      this.#settle();
    });
  }

  observe(results: readonly ScenarioResult[]): void {
    this.#observed = this.#observed.concat(results);
    if (!this.#before) this.#settle();
  }

  reports() {
    return this.#cursor.reports();
  }

  close(): Promise<void> {
    return this.#inTurn(async () => {
      this.#before ??= { state: this.#cursor.state() };
      await this.#cursor.close();
    });
  }

  async #take(count: number, signal: AbortSignal | undefined): Promise<DrawnScenario<Scenario>[]> {
    signal?.throwIfAborted();
    await this.#recover(signal);
    this.#before = { state: this.#cursor.state() };
    const taken: DrawnScenario<Scenario>[] = [];
    while (taken.length < count) {
      const drawn = await untilAborted(this.#cursor.next(), signal);
      if (!drawn) break;
      taken.push(drawn);
      if (taken.length % drawsPerBreath === 0) await untilAborted(breathe(), signal);
    }
    this.#settle();
    return taken;
  }

  async #recover(signal: AbortSignal | undefined): Promise<void> {
    if (!this.#before) return;
    const cursor = this.#stage.open(0);
    await untilAborted(cursor.restore(this.#before.state), signal);
    this.#replaceCursor(cursor);
    this.#settle();
  }

  #settle(): void {
    this.#before = undefined;
    this.#cursor.observe(this.#observed);
    this.#observed = [];
  }

  /** Does not wait for the old cursor to close: it may hang. */
  #replaceCursor(cursor: Cursor<Scenario>): void {
    this.#cursor.close().catch(() => undefined);
    this.#cursor = cursor;
  }

  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => undefined);
    return done;
  }
}

const positionSchema = z.object({
  set: z.record(z.string(), z.unknown()),
  state: z.unknown(),
  observed: z.array(z.object({ key: z.string(), rewards: z.array(z.number()) })),
});

/** A position: the description of its set, the state of the cursor, and results that wait for the end of a take. */
export function writePosition(
  set: StageDescription,
  state: JsonValue,
  observed: readonly ScenarioResult[],
): JsonValue {
  return { set, state, observed: observed.map(({ key, rewards }) => ({ key, rewards: [...rewards] })) };
}

/**
 * @throws ScenarioError (`scenario_position_refused`) if the value is not a position, or is the position of another set;
 * the message names the first difference.
 */
export function readPosition(
  position: unknown,
  set: StageDescription,
): { state: unknown; observed: ScenarioResult[] } {
  const { set: saved, state, observed } = readState('ScenarioSet', positionSchema, position);
  const difference = differenceOf(saved, set, String(set.kind));
  if (difference) {
    throw positionError(
      `The position is of another set: ${difference}. Seek with the set that the position was taken from, or begin ` +
        'without a position.',
    );
  }
  return { state, observed };
}

function differenceOf(saved: unknown, here: unknown, where: string): string | null {
  if (isObject(saved) && isObject(here)) {
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
