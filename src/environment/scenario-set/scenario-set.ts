import { z } from 'zod';
import { invalidOption, wholeNumberOption } from '../../util/option-error.ts';
import { checkArgument, checkOptionNames, type OptionNames } from '../../util/option-names.ts';
import { ScenarioError } from '../errors.ts';
import { arrayStage } from './array-stage.ts';
import { difficultyStage } from './difficulty.ts';
import { Drawing } from './drawing.ts';
import { jsonLinesStage } from './file-stage.ts';
import { type Generate, generatorStage } from './generator-stage.ts';
import { mixStage } from './mix-stage.ts';
import { repeatStage } from './repeat-stage.ts';
import type { KeyFunction } from './scenario-key.ts';
import { shuffleStage } from './shuffle-stage.ts';
import type {
  DifficultyOptions,
  DifficultyReport,
  DrawnScenario,
  JsonValue,
  ScenarioResult,
  ScenarioSource,
  Stage,
} from './stage.ts';
import { type SplitOptions, splitStages, transformStage } from './transform-stage.ts';

export interface ScenarioSetOptions<Scenario> {
  /** Gives the key of each scenario. Default: its `id`, else a hash of its JSON. */
  key?: KeyFunction<Scenario>;
}

export interface MixedSet<Scenario> {
  set: ScenarioSet<Scenario>;
  /** How often the set is drawn from, relative to the other sets. Above 0. */
  weight: number;
  /** Prefix of its scenarios' keys in the mix: `name/key`. Default: its index, from 0. */
  name?: string;
}

const setNames = { key: 'function' } satisfies OptionNames<ScenarioSetOptions<unknown>>;
const mixedNames = { set: 'object', weight: true, name: 'text' } satisfies OptionNames<MixedSet<unknown>>;

/**
 * Scenarios to draw from, in an order that seeds decide, with a position that can be saved and resumed.
 *
 *     const { train, val } = ScenarioSet.fromJsonLines('tasks.jsonl', { schema }).split({ train: 0.9, val: 0.1 });
 *     const scenarios = train.shuffle({ seed: 1 }).repeat().byDifficulty();
 *
 * Each method returns a new set and does not change the old one. A set has one consumer. The functions that you pass
 * (`key`, `filter`, `map`, `by`) must always return the same for the same scenario, or positions are meaningless.
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
    return new ScenarioSet(arrayStage(items, options.key));
  }

  /**
   * A file with one JSON scenario per line, read while scenarios are drawn. Blank lines are skipped. `schema` parses
   * each scenario. Drawing throws ScenarioError (`invalid_scenario_file`), which names file and line.
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
    checkArgument('path', path, 'path');
    return new ScenarioSet(jsonLinesStage(path, options.schema ?? z.custom<Scenario>(), options.key));
  }

  /**
   * Scenarios that a function generates, possibly without end. Seeking runs the function again up to the position, which
   * costs as much as generating those scenarios did, and checks that it generates the same ones.
   */
  static generate<Scenario>(
    generate: Generate<Scenario>,
    options: ScenarioSetOptions<Scenario> = {},
  ): ScenarioSet<Scenario> {
    checkOptionNames('ScenarioSet.generate()', options, setNames);
    checkArgument('generate', generate, 'function');
    return new ScenarioSet(generatorStage(generate, options.key));
  }

  /**
   * Draws each scenario from one of several sets, chosen at random by weight. A set that has ended is left out; use
   * `.repeat()` to keep the weights. For sets of different types, name the union:
   * `ScenarioSet.mix<Sum | Riddle>(...)`. Default seed 0.
   */
  static mix<Scenario>(
    sets: readonly MixedSet<Scenario>[],
    options: { seed?: number } = {},
  ): ScenarioSet<Scenario> {
    checkOptionNames('ScenarioSet.mix()', options, { seed: 'whole' });
    checkArgument('sets', sets, 'list');
    const parts = sets.map((part, index) => {
      checkOptionNames('A set of ScenarioSet.mix()', part, mixedNames);
      if (!(part.set instanceof ScenarioSet))
        throw invalidOption('invalid_option', `sets[${index}].set`, part.set, 'Pass a ScenarioSet.');
      return { stage: part.set.#stage, weight: part.weight, name: part.name ?? String(index) };
    });
    return new ScenarioSet(mixStage(parts, options.seed ?? 0));
  }

  /** See ScenarioSource. A mix has a size only if all of its sets have one. */
  get size(): number | null {
    return this.#stage.size;
  }

  /**
   * Shuffles the set anew in each epoch. Without `buffer`, it reads the whole set into memory. With `buffer`, which
   * generators need, it reads and shuffles that many scenarios at a time; seeking a position reads at most one buffer
   * again. Default seed 0.
   * @throws OptionError without `buffer`, for a set that may not end.
   */
  shuffle(options: { seed?: number; buffer?: number } = {}): ScenarioSet<Scenario> {
    checkOptionNames('shuffle()', options, { seed: 'whole', buffer: 'numeric' });
    return new ScenarioSet(shuffleStage(this.#stage, options));
  }

  /** Repeats the set. Default: forever. */
  repeat(epochs = Number.POSITIVE_INFINITY): ScenarioSet<Scenario> {
    if (epochs !== Number.POSITIVE_INFINITY) wholeNumberOption('invalid_scenario_set', 'epochs', epochs, 1);
    return new ScenarioSet(repeatStage(this.#stage, epochs));
  }

  /**
   * Splits the set by shares that add up to 1. A scenario is always in the same split, whatever the order and the other
   * scenarios are, so the sizes match the shares only on average.
   *
   *     const { train, val, test } = set.split({ train: 0.8, val: 0.1, test: 0.1 }, { by: ({ repository }) => repository });
   */
  split<Name extends string>(
    shares: Readonly<Record<Name, number>>,
    options?: SplitOptions<Scenario>,
  ): Record<Name, ScenarioSet<Scenario>>;
  split(
    shares: Readonly<Record<string, number>>,
    options: SplitOptions<Scenario> = {},
  ): Record<string, ScenarioSet<Scenario>> {
    const splits = splitStages(this.#stage, shares, options);
    return Object.fromEntries(splits.map(([name, stage]) => [name, new ScenarioSet(stage)]));
  }

  filter(test: (scenario: Scenario) => boolean | Promise<boolean>): ScenarioSet<Scenario> {
    return new ScenarioSet(
      transformStage(this.#stage, {
        size: null,
        description: { kind: 'filter' },
        apply: async (drawn) => ((await test(drawn.scenario)) ? drawn : null),
      }),
    );
  }

  /** Changes each scenario; its key stays. */
  map<Changed>(change: (scenario: Scenario) => Changed | Promise<Changed>): ScenarioSet<Changed> {
    return new ScenarioSet(
      transformStage(this.#stage, {
        size: this.#stage.size,
        description: { kind: 'map' },
        apply: async ({ scenario, key }) => ({ scenario: await change(scenario), key }),
      }),
    );
  }

  /**
   * Skips scenarios whose last groups were all solved, all unsolved, or all equal, within the bounds of its options.
   * It learns from `observe`, which `train` calls; `report()` shows its counts. Put it after `.repeat()`.
   */
  byDifficulty(options: DifficultyOptions = {}): ScenarioSet<Scenario> {
    return new ScenarioSet(difficultyStage(this.#stage, options));
  }

  /**
   * Draws up to `count` scenarios. It throws what the set's functions and files throw. After an error or an abort
   * nothing has been taken: the next take starts at the same position.
   */
  take(count: number, { signal }: { signal?: AbortSignal } = {}): Promise<DrawnScenario<Scenario>[]> {
    if (count !== Number.POSITIVE_INFINITY) wholeNumberOption('invalid_scenario_set', 'count', count, 0);
    return this.#drawing.take(count, signal);
  }

  /**
   * All scenarios of one pass. The position does not change.
   * @throws ScenarioError (`invalid_scenario_set`) for a set that repeats forever.
   */
  async toArray({ signal }: { signal?: AbortSignal } = {}): Promise<Scenario[]> {
    if (this.#stage.extent === 'infinite')
      throw new ScenarioError(
        'invalid_scenario_set',
        'The set repeats forever and has no array. Call `toArray()` before `.repeat()`.',
      );
    const drawing = new Drawing(this.#stage);
    const drawn = await drawing.take(Number.POSITIVE_INFINITY, signal);
    await drawing.close();
    return drawn.map(({ scenario }) => scenario);
  }

  position(): JsonValue {
    return this.#drawing.position();
  }

  /** @throws ScenarioError (`scenario_position_refused`) for a position of another set. */
  seek(position: JsonValue): Promise<void> {
    return this.#drawing.seek(position);
  }

  observe(results: readonly ScenarioResult[]): void {
    this.#drawing.observe(results);
  }

  /** A report for each `.byDifficulty()` in the set; in a mix their names start with the part's. */
  report(): DifficultyReport[] {
    return this.#drawing.reports();
  }

  /** Ends running generators. The set stays usable: the next take runs them again up to the position. */
  close(): Promise<void> {
    return this.#drawing.close();
  }
}

/** Returns a source unchanged. An array becomes a set that repeats forever, shuffled by the seed in each epoch. */
export function toScenarioSource<Scenario>(
  scenarios: readonly Scenario[] | ScenarioSource<Scenario>,
  seed: number,
): ScenarioSource<Scenario> {
  if (typeof scenarios !== 'object' || scenarios === null)
    throw invalidOption('invalid_option', 'scenarios', scenarios, 'Pass a list or a ScenarioSet.');
  return 'take' in scenarios ? scenarios : ScenarioSet.of(scenarios).shuffle({ seed }).repeat();
}
