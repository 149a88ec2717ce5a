import { ModelHandle, type RolloutModel } from '../model/index.ts';
import { deriveSeed } from '../trajectory/index.ts';
import { invalidOption, wholeNumberOption } from '../util/option-error.ts';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import { sumOf } from '../util/sums.ts';

/** A fixed player of a pool. */
export interface PoolPlayer {
  /** Any model: a checkpoint, `externalModel()`, or a function in place of a model by `scriptedModel()`. */
  model: RolloutModel;
  /**
   * Its share beside the others.
   *
   * @default 1
   */
  weight?: number;
}

export interface OpponentsOptions {
  /**
   * Share of the checkpoint that the rollouts sample from, without training this seat.
   *
   * @default 1
   */
  newest?: number;
  /**
   * Share of earlier checkpoints together, each as likely as the others.
   *
   * @default 1
   */
  older?: number;
  /**
   * Every this many steps a checkpoint joins the earlier ones.
   *
   * @default 5
   */
  everySteps?: number;
  /**
   * Number of earlier checkpoints in the pool; the oldest leave it. The service keeps them meanwhile.
   *
   * @default 4
   */
  keep?: number;
  /**
   * Players that do not change.
   *
   * @default none
   * @example [{ model: easyBuyer, weight: 2 }]
   */
  players?: readonly PoolPlayer[];
  /**
   * An earlier checkpoint or a fixed player leaves the pool when the model's mean reward against it in one step reaches
   * this, whatever the number of rollouts. With nobody left, the newest checkpoint plays.
   *
   * @default nobody leaves
   * @example 0.9
   */
  beatenAt?: number;
}

const playerNames = { model: true, weight: true } satisfies OptionNames<PoolPlayer>;

const names = {
  newest: true,
  older: true,
  everySteps: true,
  keep: true,
  players: true,
  beatenAt: true,
} satisfies OptionNames<OpponentsOptions>;

/** What a run knows of the past when it draws opponents. */
export interface OpponentPast {
  /** Number of the step whose opponents are drawn, from 0. */
  step: number;
  /** Step of the checkpoint before the first step, then after each finished one. */
  policySteps: readonly number[];
  /** The model's mean reward against each opponent, by the opponent's name, in each finished step. */
  results: readonly { seat: string; model: string; reward: number }[];
}

const code = 'invalid_rollout_option';
const nothing: OpponentPast = { step: 0, policySteps: [], results: [] };

/** A pool of opponents for a seat; see `opponents`. */
export class Opponents {
  readonly #options: Required<Omit<OpponentsOptions, 'beatenAt'>> & { beatenAt: number };
  readonly #past: OpponentPast;

  constructor(options: OpponentsOptions, past: OpponentPast = nothing) {
    const { newest = 1, older = 1, everySteps = 5, keep = 4, players = [] } = options;
    const { beatenAt = Number.POSITIVE_INFINITY } = options;
    this.#options = { newest, older, everySteps, keep, players, beatenAt };
    this.#past = past;
  }

  /** The pool in words, for records of a run. */
  get name(): string {
    const { players, beatenAt, newest, older, everySteps, keep } = this.#options;
    const fixed = players.map(({ model, weight = 1 }) => `${weight} x ${model.name}`);
    const earlier = older === 0 ? [] : [`${older} x the ${keep} newest of every ${everySteps} steps`];
    const beaten = Number.isFinite(beatenAt) ? `, until beaten at ${beatenAt}` : '';
    return `opponents: ${[`${newest} x newest`, ...earlier, ...fixed].join(', ')}${beaten}`;
  }

  /** Returns the pool as it is at a point of a run. */
  after(past: OpponentPast): Opponents {
    return new Opponents(this.#options, past);
  }

  /** Checkpoints that the pool may draw at this point, oldest first. */
  get checkpoints(): number[] {
    const { everySteps, keep, older } = this.#options;
    const { step, policySteps } = this.#past;
    if (older === 0) return [];
    const joined = policySteps.filter((_, at) => at < step && at % everySteps === 0);
    return [...new Set(joined)].slice(-keep);
  }

  /** The opponent of a group. A seed always draws the same one. */
  draw({ policy, seed }: { policy: RolloutModel; seed: number }): RolloutModel {
    const { newest, older, players } = this.#options;
    const earlier = policy instanceof ModelHandle ? this.checkpoints.map((step) => policy.at(step)) : [];
    const open = earlier.filter((model) => model.name !== policy.name && !this.#isBeaten(model));
    const pool = [
      { model: policy, weight: newest },
      ...open.map((model) => ({ model, weight: older / open.length })),
      ...players
        .filter(({ model }) => !this.#isBeaten(model))
        .map(({ model, weight = 1 }) => ({ model, weight })),
    ];
    const total = sumOf(pool, ({ weight }) => weight);
    let left = (deriveSeed(seed, 0) / 2 ** 32) * total;
    for (const { model, weight } of pool) {
      left -= weight;
      if (left < 0 && weight > 0) return model;
    }
    return policy;
  }

  #isBeaten({ name }: RolloutModel): boolean {
    const { beatenAt } = this.#options;
    return this.#past.results.some(({ model, reward }) => model === name && reward >= beatenAt);
  }
}

/**
 * A pool of opponents for a seat of an environment: the newest checkpoint, earlier ones of the same run, and fixed
 * players. Each group draws one by its share, and all rollouts of the group meet it.
 *
 *     await train({ ..., seats: { o: opponents({ players: [{ model: perfect }], beatenAt: 0.8 }) } });
 *
 * Earlier checkpoints come from the run that `train` makes: outside of it, as in `evaluate`, there are none.
 * @throws OptionError
 */
export function opponents(options: OpponentsOptions = {}): Opponents {
  checkOptionNames('opponents()', options, names);
  const { newest = 1, older = 1, everySteps = 5, keep = 4, players = [], beatenAt } = options;
  const shares = {
    newest,
    older,
    ...Object.fromEntries(players.map(({ weight = 1 }, at) => [`players[${at}].weight`, weight])),
  };
  const taken = new Set<string>();
  for (const [at, player] of players.entries()) {
    checkOptionNames('A player of opponents()', player, playerNames);
    const { name } = player.model;
    if (taken.has(name))
      throw invalidOption(
        code,
        `players[${at}].model`,
        name,
        'Another player has this name, and reports could not tell them apart. Give each its own.',
      );
    taken.add(name);
  }
  for (const [option, share] of Object.entries(shares))
    if (!(share >= 0 && Number.isFinite(share)))
      throw invalidOption(code, option, share, 'Pass a number from 0 up.');
  if (Object.values(shares).every((share) => share === 0))
    throw invalidOption(code, 'newest', newest, 'Every share is 0, so there is nobody to draw.');
  wholeNumberOption(code, 'everySteps', everySteps, 1);
  wholeNumberOption(code, 'keep', keep, 1);
  if (beatenAt !== undefined && !Number.isFinite(beatenAt))
    throw invalidOption(code, 'beatenAt', beatenAt, 'Pass a mean reward, or leave it out.');
  return new Opponents(options);
}
