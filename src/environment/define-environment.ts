import type { z } from 'zod';
import { loopAgent, rolloutAgent } from './agents.ts';
import { checkOptions } from './check-options.ts';
import { creditOf } from './credit.ts';
import type { Environment, GroupScoring, OpenEnvironment } from './environment.ts';
import { EnvironmentError } from './errors.ts';
import type { LoopOutcome } from './loop/pieces.ts';
import type {
  LoopEnvironmentOptions,
  RolloutEnvironmentOptions,
  SetupContext,
  SharedOptions,
} from './options.ts';
import { score, scoreGroup, withWeights } from './rewards/score.ts';
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
 * TypeScript infers scenario, state and outcome from the schema and the functions, in the order of the properties:
 * write `setup` before `rollout` or `prompt`, and the rewards after it.
 *
 * @throws OptionError for an unknown option; for an invalid weight, limit, discount or deadline; for a name that both a
 * reward and a group reward have; and for an environment without a weighted reward or `credit`.
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
  checkOptions(options);
  return options.rollout
    ? build(options, (context, state) => rolloutAgent(options, context, state))
    : build(options, (context, state) => loopAgent(options, context, state));
}

type Agent<Outcome> = Pick<OpenEnvironment<Outcome>, 'rollout' | 'atLimit' | 'onError'>;

function build<Schema extends z.ZodType, Outcome, State>(
  options: SharedOptions<Schema, Outcome, State>,
  agent: (context: SetupContext<z.output<Schema>>, state: State) => Agent<Outcome>,
): Environment<Schema, Outcome> {
  const { name, scenario: schema, limits = {}, setup, cleanup, credit } = options;
  const rewards = withWeights(options.rewards ?? {});
  const groupRewards = withWeights(options.groupRewards ?? {});

  const open = (context: SetupContext<z.output<Schema>>, state: State): OpenEnvironment<Outcome> => ({
    ...agent(context, state),
    score: (outcome, { trajectory, signal, timeoutMs }) =>
      score(rewards, { scenario: context.scenario, outcome, state, trajectory, signal }, { timeoutMs }),
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
    limits,
    rewardNames: [...rewards.keys(), ...groupRewards.keys()],
    hasSetup: setup !== undefined,
    cleanupTimeoutMs: cleanup ? (options.cleanupTimeoutMs ?? defaultCleanupTimeoutMs) : null,
    groupScoring: groupRewards.size > 0 || credit ? groupScoring : null,
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
