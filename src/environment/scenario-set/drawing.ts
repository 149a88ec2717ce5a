import { z } from 'zod';
import { untilAborted } from '../../util/deadline.ts';
import { isObject } from '../../util/json.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { positionError } from '../errors.ts';
import {
  type Cursor,
  type DifficultyReport,
  type DrawnScenario,
  type JsonValue,
  readState,
  type ScenarioResult,
  type Stage,
} from './stage.ts';

/** The description of the set, the state of the cursor, and results that wait for the end of a take. */
const positionSchema = z.object({
  set: z.record(z.string(), z.unknown()),
  state: z.unknown(),
  observed: z.array(z.object({ key: z.string(), rewards: z.array(z.number()) })),
});

/** Draws from a stage, one take after the other. A take that fails or is aborted has no effect on the position. */
export class Drawing<Scenario> {
  readonly #stage: Stage<Scenario>;
  #cursor: Cursor<Scenario>;
  #queue: Promise<unknown> = Promise.resolve();
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
      this.#enqueue(() => this.#take(count, signal)),
      signal,
    );
  }

  position(): JsonValue {
    const { state } = this.#before ?? { state: this.#cursor.state() };
    const observed = this.#observed.map(({ key, rewards }) => ({ key, rewards: [...rewards] }));
    return { set: this.#stage.describe(), state, observed };
  }

  /** @throws ScenarioError (`scenario_position_refused`) with the first difference to the position's set. */
  seek(position: unknown): Promise<void> {
    return this.#enqueue(async () => {
      const { set, state, observed } = readState('ScenarioSet', positionSchema, position);
      const difference = differenceOf(set, this.#stage.describe(), String(set.kind));
      if (difference)
        throw positionError(
          `The position belongs to another set: ${difference}. Use the same set, or start without a position.`,
        );
      const cursor = this.#stage.open(0);
      await cursor.restore(state);
      this.#replaceCursor(cursor);
      this.#observed = observed;
      this.#commit();
    });
  }

  observe(results: readonly ScenarioResult[]): void {
    this.#observed = this.#observed.concat(results);
    if (!this.#before) this.#commit();
  }

  reports(): DifficultyReport[] {
    return this.#cursor.reports?.() ?? [];
  }

  close(): Promise<void> {
    return this.#enqueue(async () => {
      this.#before ??= { state: this.#cursor.state() };
      await this.#cursor.close?.();
    });
  }

  async #take(count: number, signal: AbortSignal | undefined): Promise<DrawnScenario<Scenario>[]> {
    signal?.throwIfAborted();
    await this.#rollBack(signal);
    this.#before = { state: this.#cursor.state() };
    const taken: DrawnScenario<Scenario>[] = [];
    const slices = new TimeSlices();
    while (taken.length < count) {
      const drawn = await untilAborted(this.#cursor.next(), signal);
      if (!drawn) break;
      taken.push(drawn);
      if (slices.over) await untilAborted(slices.pause(), signal);
    }
    this.#commit();
    return taken;
  }

  async #rollBack(signal: AbortSignal | undefined): Promise<void> {
    if (!this.#before) return;
    const cursor = this.#stage.open(0);
    await untilAborted(cursor.restore(this.#before.state), signal);
    this.#replaceCursor(cursor);
    this.#commit();
  }

  #commit(): void {
    this.#before = undefined;
    this.#cursor.observe?.(this.#observed);
    this.#observed = [];
  }

  /** Does not wait for the old cursor to close: it may hang. */
  #replaceCursor(cursor: Cursor<Scenario>): void {
    this.#cursor.close?.().catch(() => undefined);
    this.#cursor = cursor;
  }

  #enqueue<Result>(work: () => Promise<Result>): Promise<Result> {
    const done = this.#queue.then(work);
    this.#queue = done.catch(() => undefined);
    return done;
  }
}

/** The first difference between two descriptions; null if they are equal. */
function differenceOf(saved: unknown, here: unknown, path: string): string | null {
  let children: [saved: unknown, here: unknown, path: string][];
  if (isObject(saved) && isObject(here)) {
    if (saved.kind !== here.kind)
      return `it has \`${String(saved.kind)}\` where this set has \`${String(here.kind)}\``;
    const stage = typeof here.kind === 'string' ? here.kind : path;
    const names = new Set([...Object.keys(saved), ...Object.keys(here)]);
    children = [...names].map((name) => [
      saved[name],
      here[name],
      name === 'of' ? stage : `${name}\` of \`${stage}`,
    ]);
  } else if (Array.isArray(saved) && Array.isArray(here) && saved.length === here.length) {
    children = saved.map((item, index) => [item, here[index], `${path}[${index}]`]);
  } else {
    const [was, is] = [JSON.stringify(saved), JSON.stringify(here)];
    return was === is ? null : `\`${path}\` is ${was} in the position and ${is} here`;
  }
  for (const child of children) {
    const difference = differenceOf(...child);
    if (difference) return difference;
  }
  return null;
}
