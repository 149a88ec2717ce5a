import { z } from 'zod';
import { wholeNumberOption } from '../../util/option-error.ts';
import { checkOptionNames, type OptionNames } from '../../util/option-names.ts';
import { ScenarioError } from '../errors.ts';
import { ArrayStage } from './array-stage.ts';
import { DifficultyStage, resolveDifficulty } from './difficulty.ts';
import { Drawing } from './drawing.ts';
import { JsonLinesStage } from './file-stage.ts';
import { type Generate, GeneratorStage } from './generator-stage.ts';
import { MixStage } from './mix-stage.ts';
import { RepeatStage } from './repeat-stage.ts';
import type { KeyFunction } from './scenario-key.ts';
import type { DrawnScenario, JsonValue, ScenarioResult, ScenarioSource } from './scenario-source.ts';
import { ShuffleStage } from './shuffle-stage.ts';
import type { DifficultyOptions, DifficultyReport, Stage } from './stage.ts';
import { mapNames, type SplitOptions, splitStage, splitter, TransformStage } from './transform-stage.ts';

export interface ScenarioSetOptions<Scenario> {
  /** Default: the scenario's `id`, or where it has none a hash of its JSON. */
  key?: KeyFunction<Scenario>;
}

export interface MixedSet<Scenario> {
  set: ScenarioSet<Scenario>;
  /** How often it is drawn from, relative to the others. Above 0. */
  weight: number;
  /** Begins the keys of its scenarios in the mix: `name/key`. Default: its place, from 0. */
  name?: string;
}

const setNames = { key: true } satisfies OptionNames<ScenarioSetOptions<unknown>>;
const mixedNames = { set: true, weight: true, name: true } satisfies OptionNames<MixedSet<unknown>>;

/**
 * Scenarios to draw from, in an order that seeds decide, with a position that can be saved and come back to.
 *
 *     const { train, val } = ScenarioSet.fromJsonLines('tasks.jsonl', { schema }).split({ train: 0.9, val: 0.1 });
 *     const scenarios = train.shuffle({ seed: 1 }).repeat().byDifficulty();
 *
 * Each method gives a new set and leaves the old one as it is. A set is drawn from by one consumer; functions that it
 * is given (`key`, `filter`, `map`, `by`) must always say the same of the same scenario, or positions mean nothing.
 */
export class ScenarioSet<Scenario> implements ScenarioSource<Scenario> {
  readonly #stage: Stage<Scenario>;
  readonly #drawing: Drawing<Scenario>;

  private constructor(stage: Stage<Scenario>) {
    this.#stage = stage;
    this.#drawing = new Drawing(stage);
  }

  /** Scenarios in memory, in their order, once. */
  static of<Scenario>(
    items: readonly Scenario[],
    options: ScenarioSetOptions<Scenario> = {},
  ): ScenarioSet<Scenario> {
    checkOptionNames('ScenarioSet.of()', options, setNames);
    return new ScenarioSet(new ArrayStage(items, options.key));
  }

  /**
   * A file with one scenario as JSON a line, read as it is drawn from; blank lines are passed over. With `schema`, a
   * scenario is what that gives. Drawing throws ScenarioError (`invalid_scenario_file`), which names file and line.
   */
  static fromJsonLines(path: string, options?: ScenarioSetOptions<JsonValue>): ScenarioSet<JsonValue>;
  static fromJsonLines<Scenario>(
    path: string,
    options: ScenarioSetOptions<Scenario> & { schema: z.ZodType<Scenario> },
  ): ScenarioSet<Scenario>;
  static fromJsonLines<Scenario>(
    path: string,
    options: ScenarioSetOptions<Scenario> & { schema?: z.ZodType<Scenario> } = {},
  ): ScenarioSet<Scenario> {
    checkOptionNames('ScenarioSet.fromJsonLines()', options, { ...setNames, schema: true });
    return new ScenarioSet(new JsonLinesStage(path, options.schema ?? z.custom<Scenario>(), options.key));
  }

  /**
   * Scenarios that a function makes, one after the other; they need not end. Seeking runs the function again up to
   * the position, which costs as much as making all of these did, and checks that it gave the same ones.
   */
  static generate<Scenario>(
    generate: Generate<Scenario>,
    options: ScenarioSetOptions<Scenario> = {},
  ): ScenarioSet<Scenario> {
    checkOptionNames('ScenarioSet.generate()', options, setNames);
    return new ScenarioSet(new GeneratorStage(generate, options.key));
  }

  /**
   * Draws each scenario from one of several sets, chosen at random by weight. A set that has come to its end is left
   * out from there on; `.repeat()` it to keep the weights. Sets of different types need the union named:
   * `ScenarioSet.mix<Sum | Riddle>(...)`. Default seed 0.
   */
  static mix<Scenario>(
    sets: readonly MixedSet<Scenario>[],
    options: { seed?: number } = {},
  ): ScenarioSet<Scenario> {
    checkOptionNames('ScenarioSet.mix()', options, { seed: true });
    const parts = sets.map((part, index) => {
      checkOptionNames('A set of ScenarioSet.mix()', part, mixedNames);
      return { stage: part.set.#stage, weight: part.weight, name: part.name ?? String(index) };
    });
    return new ScenarioSet(new MixStage(parts, options.seed ?? 0));
  }

  /** See ScenarioSource. A mix has a size only where all of its sets end. */
  get size(): number | null {
    return this.#stage.size;
  }

  /**
   * Another order each epoch. A set that ends is shuffled whole, for which a file's scenarios are held in memory; with
   * `buffer`, and for generators always, that many scenarios are read at a time and shuffled among themselves. Going
   * back to a position reads at most one buffer again. Default seed 0.
   * @throws OptionError for a set whose end is not known, without `buffer`.
   */
  shuffle(options: { seed?: number; buffer?: number } = {}): ScenarioSet<Scenario> {
    checkOptionNames('shuffle()', options, { seed: true, buffer: true });
    const { seed = 0, buffer } = options;
    return new ScenarioSet(new ShuffleStage(this.#stage, { seed, buffer }));
  }

  /** The set again and again. Default: for ever. */
  repeat(epochs = Number.POSITIVE_INFINITY): ScenarioSet<Scenario> {
    if (epochs !== Number.POSITIVE_INFINITY) wholeNumberOption('invalid_scenario_set', 'epochs', epochs, 1);
    return new ScenarioSet(new RepeatStage(this.#stage, epochs));
  }

  /**
   * Parts by share, which must add up to 1. The same scenario is always in the same part, whatever the order and
   * whatever else is in the set; the shares are therefore met on average only.
   *
   *     const { train, val, test } = set.split({ train: 0.8, val: 0.1, test: 0.1 }, { by: ({ repository }) => repository });
   */
  split<Name extends string>(
    shares: Readonly<Record<Name, number>>,
    options: SplitOptions<Scenario> = {},
  ): Record<Name, ScenarioSet<Scenario>> {
    const splitOf = splitter<Scenario>(shares, options);
    const identity = { shares, seed: options.seed ?? 0 };
    return mapNames(shares, (name) => new ScenarioSet(splitStage(this.#stage, name, splitOf, identity)));
  }

  filter(test: (scenario: Scenario) => boolean | Promise<boolean>): ScenarioSet<Scenario> {
    return new ScenarioSet(
      new TransformStage({
        of: this.#stage,
        size: null,
        description: { kind: 'filter' },
        apply: async (drawn) => ((await test(drawn.scenario)) ? drawn : null),
      }),
    );
  }

  /** Scenarios changed one by one; each keeps its key. */
  map<Changed>(change: (scenario: Scenario) => Changed | Promise<Changed>): ScenarioSet<Changed> {
    return new ScenarioSet(
      new TransformStage<Scenario, Changed>({
        of: this.#stage,
        size: this.#stage.size,
        description: { kind: 'map' },
        apply: async ({ scenario, key }) => ({ scenario: await change(scenario), key }),
      }),
    );
  }

  /**
   * Leaves out scenarios whose last groups were all solved, all unsolved, or all equal, as far as its bounds allow;
   * `report()` shows what it has learnt. It learns from `observe`, which `train` calls. Put it after `.repeat()`.
   */
  byDifficulty(options: DifficultyOptions = {}): ScenarioSet<Scenario> {
    return new ScenarioSet(new DifficultyStage(this.#stage, resolveDifficulty(options)));
  }

  /**
   * Throws what the set's functions and files throw; then, as after an abort, nothing has been taken, and the next
   * take begins at the same place.
   */
  take(count: number, { signal }: { signal?: AbortSignal } = {}): Promise<DrawnScenario<Scenario>[]> {
    if (count !== Number.POSITIVE_INFINITY) wholeNumberOption('invalid_scenario_set', 'count', count, 0);
    return this.#drawing.take(count, signal);
  }

  /** All scenarios of one pass, whatever has been taken. @throws ScenarioError (`invalid_scenario_set`) for a set without an end. */
  async toArray({ signal }: { signal?: AbortSignal } = {}): Promise<Scenario[]> {
    if (this.#stage.extent === 'infinite')
      throw new ScenarioError(
        'invalid_scenario_set',
        'The set repeats for ever and makes no array. Call `toArray()` before `.repeat()`.',
      );
    const drawing = new Drawing(this.#stage);
    const drawn = await drawing.take(Number.POSITIVE_INFINITY, signal);
    await drawing.close();
    return drawn.map(({ scenario }) => scenario);
  }

  position(): JsonValue {
    return this.#drawing.position();
  }

  /** @throws ScenarioError (`scenario_position_refused`) for a position of another set, seed or size, which is named. */
  seek(position: JsonValue): Promise<void> {
    return this.#drawing.seek(position);
  }

  observe(results: readonly ScenarioResult[]): void {
    this.#drawing.observe(results);
  }

  /** One for each `.byDifficulty()` in the set, those of a mix by their names; none without. */
  report(): DifficultyReport[] {
    return this.#drawing.reports();
  }

  /** Ends running generators. The set stays usable: the next take goes on, after running them again. */
  close(): Promise<void> {
    return this.#drawing.close();
  }
}

/** A source as it is; an array as its scenarios in an order that the seed decides, another one each epoch, for ever. */
export function toScenarioSource<Scenario>(
  scenarios: readonly Scenario[] | ScenarioSource<Scenario>,
  seed: number,
): ScenarioSource<Scenario> {
  return isArray(scenarios) ? ScenarioSet.of(scenarios).shuffle({ seed }).repeat() : scenarios;
}

function isArray<Item>(scenarios: readonly Item[] | ScenarioSource<Item>): scenarios is readonly Item[] {
  return Array.isArray(scenarios);
}
