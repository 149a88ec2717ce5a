import type { z } from 'zod';
import {
  type DrawnScenario,
  type Environment,
  type JsonValue,
  type ScenarioResult,
  type ScenarioSource,
  toScenarioSource,
} from '../environment/index.ts';
import { parseScenarios } from '../rollout/index.ts';
import { withDeadline } from '../util/deadline.ts';
import { TrainingError } from './errors.ts';
import { trainDefaults } from './train-options.ts';

/** Position of the source before a step drew its scenarios. */
export interface Draw {
  step: number;
  position: JsonValue;
}

export interface ScenarioDrawsOptions<Schema extends z.ZodType, Outcome> {
  environment: Environment<Schema, Outcome>;
  scenarios: readonly z.input<Schema>[] | ScenarioSource<z.input<Schema>>;
  seed: number;
  /** Number of scenarios per step. */
  count: number;
  /** Deadline of each draw, in milliseconds. Default 600,000 (10 minutes). */
  timeoutMs?: number | undefined;
}

/** Draws the scenarios of each step in order, and draws those of unfinished steps again on resume. */
export class ScenarioDraws<Schema extends z.ZodType, Outcome> {
  readonly #environment: Environment<Schema, Outcome>;
  readonly #source: ScenarioSource<z.input<Schema>>;
  readonly #count: number;
  readonly #timeoutMs: number;
  #open: Draw[] = [];

  constructor({
    environment,
    scenarios,
    seed,
    count,
    timeoutMs = trainDefaults.scenarioTimeoutMs,
  }: ScenarioDrawsOptions<Schema, Outcome>) {
    this.#environment = environment;
    this.#source = toScenarioSource(scenarios, seed);
    this.#count = count;
    this.#timeoutMs = timeoutMs;
  }

  /** Draws of steps that are not settled yet, in order. */
  get open(): Draw[] {
    return [...this.#open];
  }

  position(): JsonValue {
    return this.#source.position();
  }

  /** Draws and parses the scenarios of a step. Empty if the source has ended. */
  async draw(step: number, signal: AbortSignal): Promise<DrawnScenario<z.output<Schema>>[]> {
    const position = this.#source.position();
    const drawn = await this.#take(step, signal);
    if (drawn.length > 0) this.#open.push({ step, position });
    return drawn;
  }

  /** Draws the scenarios of unfinished steps again, then moves the source to `position`. */
  async resume(
    draws: readonly Draw[],
    position: JsonValue,
    signal: AbortSignal,
  ): Promise<DrawnScenario<z.output<Schema>>[][]> {
    const drawn: DrawnScenario<z.output<Schema>>[][] = [];
    for (const draw of draws) {
      await this.#source.seek(draw.position);
      drawn.push(await this.#take(draw.step, signal));
    }
    await this.#source.seek(position);
    this.#open = [...draws];
    return drawn;
  }

  /** Passes the results of a finished step to the source. */
  settle(step: number, results: readonly ScenarioResult[]): void {
    this.#open = this.#open.filter((draw) => draw.step !== step);
    this.#source.observe(results);
  }

  async #take(step: number, signal: AbortSignal): Promise<DrawnScenario<z.output<Schema>>[]> {
    const timeoutMs = this.#timeoutMs;
    const timedOut = () =>
      new TrainingError(
        'scenario_timeout',
        `The source of scenarios did not give those of step ${step + 1} within ${timeoutMs} ms. Raise ` +
          '`scenarioTimeoutMs`, or look at what its generator waits for.',
      );
    const drawn = await withDeadline({ timeoutMs, signal, timedOut }, (ending) =>
      this.#source.take(this.#count, { signal: ending }),
    );
    const parsed = await parseScenarios(
      this.#environment,
      drawn.map(({ scenario }) => scenario),
    );
    return drawn.flatMap(({ key }, index) => {
      const scenario = parsed[index];
      return scenario === undefined ? [] : [{ scenario, key }];
    });
  }
}
