import type { z } from 'zod';
import { asThrownBy } from '../util/error.ts';
import { checkArgument } from '../util/option-names.ts';
import { loopAgent, rolloutAgent, seatAgents } from './agents.ts';
import { checkOptions, checkTexts } from './check-options.ts';
import { creditOf } from './credit.ts';
import type { Environment, EnvironmentDefinition, GroupScoring, OpenEnvironment } from './environment.ts';
import { EnvironmentError } from './errors.ts';
import type { LoopOutcome } from './loop/pieces.ts';
import type {
  LoopEnvironmentOptions,
  RolloutEnvironmentOptions,
  SetupContext,
  SharedOptions,
} from './options.ts';
import type { RewardFunction, Rewards } from './rewards/reward.ts';
import { rewardCodes } from './rewards/reward-code.ts';
import { score, scoreGroup, type WeightedRewards, withWeights } from './rewards/score.ts';
import { givenTitle } from './scenario-title.ts';
import type { SeatEnvironmentOptions } from './seats.ts';
import type { NoTexts, TextSet } from './texts.ts';
import { describeThrown } from './thrown.ts';

const defaultCleanupTimeoutMs = 30_000;

/**
 * Defines an environment: its scenarios, its agent and its rewards. There are two forms. In one, `rollout` runs your
 * agent:
 *
 *     const environment = defineEnvironment({
 *       name: 'sums',
 *       scenario: z.object({ a: z.number(), b: z.number() }),
 *       rollout: async ({ scenario, model, signal }) => {
 *         const { text } = await generateText({
 *           model: model.languageModel, prompt: `${scenario.a} + ${scenario.b} =`, abortSignal: signal,
 *         });
 *         return text.trim();
 *       },
 *       rewards: { correct: ({ scenario, outcome }) => Number(outcome === String(scenario.a + scenario.b)) },
 *     });
 *
 * In the other, you pass pieces and martingale runs the conversation:
 *
 *     const environment = defineEnvironment({
 *       name: 'guess',
 *       scenario: z.object({ secret: z.number() }),
 *       limits: { turns: 8 },
 *       prompt: () => 'Guess my number.',
 *       observe: ({ scenario, reply }) =>
 *         Number(reply.text) === scenario.secret ? null : Number(reply.text) < scenario.secret ? 'higher' : 'lower',
 *       rewards: { found: ({ scenario, outcome }) => Number(Number(outcome.text) === scenario.secret) },
 *     });
 *
 * With `seats`, several agents meet in one rollout, each with its own model, trajectory and rewards:
 *
 *     const environment = defineEnvironment({
 *       name: 'haggle',
 *       scenario: z.object({ price: z.number() }),
 *       seats: ['buyer', 'seller'],
 *       rollout: ({ scenario, seats }) => haggle(seats.buyer.model, seats.seller.model, scenario.price),
 *       rewards: { profit: ({ outcome, seat }) => (seat === 'seller' ? outcome.paid : -outcome.paid) },
 *     });
 *
 * TypeScript infers scenario, state and outcome from the schema and the functions, in the order of the properties:
 * write `setup` before `rollout` or `prompt`, and the rewards after it.
 *
 * Without a weighted reward or `credit`, only a teacher can train on it.
 *
 * @throws OptionError for an unknown option; for an invalid weight, limit, discount or deadline; and for a name that both
 * a reward and a group reward have.
 */
export function defineEnvironment<
  Schema extends z.ZodType,
  Outcome,
  const Name extends string,
  State = undefined,
  Texts extends TextSet = NoTexts,
>(options: SeatEnvironmentOptions<Schema, Outcome, State, Name, Texts>): Environment<Schema, Outcome, Texts>;
export function defineEnvironment<
  Schema extends z.ZodType,
  Parsed = never,
  State = undefined,
  Texts extends TextSet = NoTexts,
>(
  options: LoopEnvironmentOptions<Schema, Parsed, State, Texts>,
): Environment<Schema, LoopOutcome<Parsed>, Texts>;
// Last, because the compiler tells the errors of the last form that it tries, and most environments have this one.
export function defineEnvironment<
  Schema extends z.ZodType,
  Outcome,
  State = undefined,
  Texts extends TextSet = NoTexts,
>(options: RolloutEnvironmentOptions<Schema, Outcome, State, Texts>): Environment<Schema, Outcome, Texts>;
export function defineEnvironment<
  Schema extends z.ZodType,
  Outcome,
  State,
  Parsed,
  Name extends string,
  Texts extends TextSet,
>(
  options:
    | SeatEnvironmentOptions<Schema, Outcome, State, Name, Texts>
    | RolloutEnvironmentOptions<Schema, Outcome, State, Texts>
    | LoopEnvironmentOptions<Schema, Parsed, State, Texts>,
): Environment<Schema, Outcome, Texts> | Environment<Schema, LoopOutcome<Parsed>, Texts> {
  checkArgument('options', options, 'object');
  try {
    checkOptions(options);
  } catch (error) {
    throw asThrownBy(defineEnvironment, error);
  }
  if (options.seats) {
    const { seats } = options;
    const rewards = seatRewards(options.rewards ?? {}, seats);
    return build(options, { ...ownAgent, seats }, rewards, (context, state) =>
      seatAgents(options, context, state),
    );
  }
  const rewardsOf = <Result>(rewards: Rewards<z.output<Schema>, Result, State> = {}) => {
    const weighted = withWeights(rewards);
    return () => weighted;
  };
  return options.rollout
    ? build(options, ownAgent, rewardsOf(options.rewards), (context, state) =>
        rolloutAgent(options, context, state),
      )
    : build(options, piecesOf(options), rewardsOf(options.rewards), (context, state) =>
        loopAgent(options, context, state),
      );
}

type RewardsOf<Scenario, Outcome, State> = (
  seat: string | undefined,
) => WeightedRewards<RewardFunction<Scenario, Outcome, State>>;

/** The rewards of each seat; without a seat, all of them. */
function seatRewards<Schema extends z.ZodType, Outcome, State, Name extends string>(
  rewards: NonNullable<SeatEnvironmentOptions<Schema, Outcome, State, Name>['rewards']>,
  names: readonly Name[],
): RewardsOf<z.output<Schema>, Outcome, State> {
  const all = Object.entries(rewards).map(([name, value]) => ({
    name,
    ...(typeof value === 'function' ? { reward: value } : value),
  }));
  const bySeat = names.map((seat) => {
    const own = all
      .filter(({ seats = names }) => seats.includes(seat))
      .map(({ name, weight = 1, reward }) => {
        const ofSeat: RewardFunction<z.output<Schema>, Outcome, State> = (context) =>
          reward({ ...context, seat });
        return [name, { weight, reward: ofSeat }] as const;
      });
    return [seat, new Map(own)] as const;
  });
  const found = new Map<string, WeightedRewards<RewardFunction<z.output<Schema>, Outcome, State>>>(bySeat);
  const everything = new Map(bySeat.flatMap(([, own]) => [...own]));
  return (seat) => (seat === undefined ? everything : (found.get(seat) ?? new Map()));
}

type AgentDefinition = Pick<EnvironmentDefinition, 'form' | 'tools' | 'hasObserve'> &
  Pick<Environment, 'seats'>;

const ownAgent: AgentDefinition = { form: 'rollout', seats: [], tools: null, hasObserve: false };

const piecesOf = <Schema extends z.ZodType, Parsed, State, Texts extends TextSet>({
  tools = {},
  observe,
}: LoopEnvironmentOptions<Schema, Parsed, State, Texts>): AgentDefinition => ({
  form: 'pieces',
  seats: [],
  tools: typeof tools === 'function' ? null : tools,
  hasObserve: observe !== undefined,
});

type Agent<Outcome> = Pick<OpenEnvironment<Outcome>, 'rollout' | 'atLimit' | 'onError'>;

function build<Schema extends z.ZodType, Outcome, State, Texts extends TextSet>(
  options: Omit<SharedOptions<Schema, Outcome, State, Texts>, 'rewards'> & {
    rewards?: Readonly<Record<string, object>>;
  },
  { seats, ...definition }: AgentDefinition,
  rewardsOf: RewardsOf<z.output<Schema>, Outcome, State>,
  agent: (context: SetupContext<z.output<Schema>, Texts>, state: State) => Agent<Outcome>,
  texts: Texts = textsOf(options),
): Environment<Schema, Outcome, Texts> {
  const { name, scenario: schema, limits = {}, setup, cleanup, credit } = options;
  const groupRewards = withWeights(options.groupRewards ?? {});

  const open = (context: SetupContext<z.output<Schema>, Texts>, state: State): OpenEnvironment<Outcome> => ({
    ...agent(context, state),
    score: (outcome, { timeoutMs, seat, ...scored }) =>
      score(rewardsOf(seat), { scenario: context.scenario, outcome, state, seat, ...scored }, { timeoutMs }),
    close: async (signal) => {
      await cleanup?.({ scenario: context.scenario, state, signal });
    },
  });
  const groupScoring: GroupScoring<z.output<Schema>, Outcome> = {
    score: ({ timeoutMs, ...context }) => scoreGroup(groupRewards, context, { timeoutMs }),
    credit: async ({ timeoutMs, member, ...context }) =>
      credit
        ? creditOf(credit, { ...context, ...member, calls: member.trajectory.calls }, { timeoutMs })
        : null,
  };
  return {
    name,
    scenario: schema,
    titleOf: (scenario) => givenTitle(options.title, scenario),
    seats,
    texts,
    withTexts: (changed) => {
      checkTexts(name, changed, texts);
      return build(options, { seats, ...definition }, rewardsOf, agent, { ...texts, ...changed });
    },
    limits,
    rewardNames: [...rewardsOf(undefined).keys(), ...groupRewards.keys()],
    hasSetup: setup !== undefined,
    onUnansweredCall: options.onUnansweredCall ?? 'error',
    cleanupTimeoutMs: cleanup ? (options.cleanupTimeoutMs ?? defaultCleanupTimeoutMs) : null,
    groupScoring: groupRewards.size > 0 || credit ? groupScoring : null,
    definition: {
      ...definition,
      rewards: rewardCodes({ ...options.rewards, ...options.groupRewards }),
      groupRewardNames: [...groupRewards.keys()],
      credit: credit === undefined ? 'none' : typeof credit === 'function' ? 'function' : 'discount',
    },
    open: async (given) => {
      const context = { ...given, texts };
      return open(context, await stateOf(name, context, setup));
    },
  };
}

/** The texts of an environment. Its type has none without the option. */
function textsOf<Texts extends TextSet>(options: { texts?: Texts }): Texts;
function textsOf({ texts = {} }: { texts?: TextSet }): TextSet {
  return texts;
}

/** The result of `setup`. Without `setup` the state is undefined, and so is its type. */
async function stateOf<Context, State>(
  environment: string,
  context: Context,
  setup: ((context: Context) => State | PromiseLike<State>) | undefined,
): Promise<State>;
async function stateOf<Context>(
  environment: string,
  context: Context,
  setup: ((context: Context) => unknown) | undefined,
): Promise<unknown> {
  try {
    return await setup?.(context);
  } catch (error) {
    throw new EnvironmentError(
      'setup_failed',
      `\`setup\` of environment "${environment}" threw: ${describeThrown(error)}`,
      { cause: error },
    );
  }
}
