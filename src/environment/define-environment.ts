import type { z } from 'zod';
import { loopAgent, rolloutAgent } from './agents.ts';
import { checkNames, checkOptions, checkRewards } from './check-options.ts';
import { type Credit, creditOf } from './credit.ts';
import type { Environment, GroupSettlement, OpenEnvironment } from './environment.ts';
import { EnvironmentError } from './errors.ts';
import type { LoopOutcome } from './loop/pieces.ts';
import type {
  LoopEnvironmentOptions,
  RolloutEnvironmentOptions,
  SetupContext,
  SharedOptions,
} from './options.ts';
import type { WeightedGroupReward } from './rewards/reward.ts';
import { score, scoreGroup, weigh, weighGroupRewards } from './rewards/score.ts';
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
 * In the other, you give pieces and martingale runs the conversation:
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
 * TypeScript infers scenario, state and outcome from the schema and the functions, in the order of the properties:
 * write `setup` before `rollout` or `prompt`, and the rewards after it.
 *
 * @throws OptionError for an unknown option. TypeError or RangeError, with the option's name, for an invalid weight,
 * limit, discount or deadline, for a name that both a reward and a group reward have, and for an environment without a
 * weighted reward or `credit`.
 */
export function defineEnvironment<Schema extends z.ZodType, Outcome, State = undefined>(
  options: RolloutEnvironmentOptions<Schema, Outcome, State>,
): Environment<Schema, Outcome>;
export function defineEnvironment<Schema extends z.ZodType, Parsed = never, State = undefined>(
  options: LoopEnvironmentOptions<Schema, Parsed, State>,
): Environment<Schema, LoopOutcome<Parsed>>;
export function defineEnvironment<Schema extends z.ZodType, Outcome, State, Parsed>(
  options: RolloutEnvironmentOptions<Schema, Outcome, State> | LoopEnvironmentOptions<Schema, Parsed, State>,
): Environment<Schema, Outcome> | Environment<Schema, LoopOutcome<Parsed>> {
  const given = options.rollout ?? options.prompt;
  if (typeof given !== 'function' || (options.rollout && options.prompt))
    throw new TypeError(`Environment "${options.name}" needs either \`rollout\` or \`prompt\`.`);
  checkNames(options);
  checkRewards({ ...options.rewards, ...options.groupRewards }, options.name);
  return options.rollout
    ? build(options, (context, state) => rolloutAgent(options, context, state))
    : build(options, (context, state) => loopAgent(options, context, state));
}

type Agent<Outcome> = Pick<OpenEnvironment<Outcome>, 'rollout' | 'atLimit' | 'onError'>;

function build<Schema extends z.ZodType, Outcome, State>(
  options: SharedOptions<Schema, Outcome, State>,
  agent: (context: SetupContext<z.output<Schema>>, state: State) => Agent<Outcome>,
): Environment<Schema, Outcome> {
  const { name, scenario: schema, limits = {}, setup, cleanup } = options;
  const rewards = weigh(options.rewards ?? {});
  const groupRewards = weighGroupRewards(options.groupRewards ?? {});
  const both = [...groupRewards.keys()].find((reward) => rewards.has(reward));
  if (both !== undefined)
    throw new TypeError(
      `"${both}" is the name of a reward and of a group reward of environment "${name}"; rename one.`,
    );
  const weights = new Map([...rewards, ...groupRewards].map(([reward, { weight }]) => [reward, weight]));
  checkOptions(options, weights);

  const open = (context: SetupContext<z.output<Schema>>, state: State): OpenEnvironment<Outcome> => ({
    ...agent(context, state),
    score: (outcome, { trajectory, signal, timeoutMs }) =>
      score(rewards, { scenario: context.scenario, outcome, state, trajectory, signal }, { timeoutMs }),
    close: async (signal) => {
      await cleanup?.({ scenario: context.scenario, state, signal });
    },
  });
  return {
    name,
    scenario: schema,
    limits,
    rewardNames: [...weights.keys()],
    hasSetup: setup !== undefined,
    cleanupTimeoutMs: cleanup ? (options.cleanupTimeoutMs ?? defaultCleanupTimeoutMs) : null,
    settlement: settlementOf(groupRewards, options.credit),
    open: async (context) => open(context, await stateOf(name, context, setup)),
  };
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

/** Group rewards and credit of an environment; null if it has neither. */
export function settlementOf<Scenario, Outcome>(
  groupRewards: ReadonlyMap<string, WeightedGroupReward<Scenario, Outcome>>,
  credit: Credit<Scenario, Outcome> | undefined,
): GroupSettlement<Scenario, Outcome> | null {
  if (groupRewards.size === 0 && !credit) return null;
  return {
    score: ({ timeoutMs, ...context }) => scoreGroup(groupRewards, context, { timeoutMs }),
    credit: async ({ scenario, signal, timeoutMs, member }) =>
      credit
        ? creditOf(credit, { scenario, signal, ...member, calls: member.trajectory.calls }, { timeoutMs })
        : null,
  };
}
