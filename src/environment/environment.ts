import type { ToolSet } from 'ai';
import type { z } from 'zod';
import type { RolloutModel } from '../model/index.ts';
import type { RolloutLimits, Trajectory, UsedUpLimit } from '../trajectory/index.ts';
import type { SetupContext } from './options.ts';
import type { GroupMember } from './rewards/reward.ts';
import type { RewardCodes } from './rewards/reward-code.ts';
import type { Seats } from './seats.ts';
import type { NoTexts, TextSet } from './texts.ts';

/** Scenarios' schema, agent, limits and rewards. Made by `defineEnvironment`. */
export interface Environment<
  Schema extends z.ZodType = z.ZodType,
  Outcome = unknown,
  Texts extends TextSet = NoTexts,
> {
  readonly name: string;
  readonly scenario: Schema;
  /** The title of a scenario, for lists; undefined without the option `title`. Never throws. */
  titleOf(scenario: z.output<Schema>): string | undefined;
  /** Names of the seats; empty in an environment with one agent. */
  readonly seats: readonly string[];
  /** What the agent is given as `texts`; empty without them. */
  readonly texts: Texts;
  /**
   * A copy of the environment in which the named texts are replaced.
   * @throws OptionError for a name that it does not have, and for a text that is no string.
   */
  withTexts(texts: Partial<Texts>): Environment<Schema, Outcome, Texts>;
  /** Limits of each rollout, and of each seat. */
  readonly limits: RolloutLimits;
  /** Names of the rewards and of the group rewards, in the order of definition. */
  readonly rewardNames: readonly string[];
  /** Whether each rollout has a state of its own, which ends with the rollout. */
  readonly hasSetup: boolean;
  /** Whether a model call without an answer that the agent goes on without fails the rollout. */
  readonly onUnansweredCall: 'error' | 'warn';
  /** Deadline of `cleanup` in milliseconds; null without `cleanup`. */
  readonly cleanupTimeoutMs: number | null;
  /** Sets the environment up for one rollout. @throws EnvironmentError */
  open(context: Omit<SetupContext<z.output<Schema>>, 'texts'>): Promise<OpenEnvironment<Outcome>>;
  /** Group rewards and credit, computed when the whole group has ended; null if the environment has neither. */
  readonly groupScoring: GroupScoring<z.output<Schema>, Outcome> | null;
  /** How it was defined, for code that runs its rollouts elsewhere. */
  readonly definition: EnvironmentDefinition;
}

export interface EnvironmentDefinition {
  /** Whether its agent is its own code or a conversation of pieces. */
  readonly form: 'rollout' | 'pieces';
  /** The tools of every rollout; null if each rollout makes its own. */
  readonly tools: ToolSet | null;
  /** Whether `observe` answers replies without tool calls. */
  readonly hasObserve: boolean;
  /** Weight and code of each reward and group reward. */
  readonly rewards: RewardCodes;
  readonly groupRewardNames: readonly string[];
  readonly credit: 'none' | 'discount' | 'function';
}

/** An environment set up for one rollout. Only its own functions see its state. */
export interface OpenEnvironment<Outcome> {
  /** Runs the agent once. */
  rollout(context: AgentContext): Promise<Outcome>;
  /** Gives the outcome of a rollout that a limit ended. Default: what the agent returned, or a failure if it threw. */
  readonly atLimit: ((context: AgentContext & { reason: UsedUpLimit }) => Promise<Outcome>) | undefined;
  /** Gives the outcome of an agent that threw. Without it, or if it returns undefined, the rollout fails. */
  readonly onError:
    | ((context: AgentContext & AgentError) => Promise<{ outcome: Outcome } | undefined>)
    | undefined;
  /** The rollout's reward. @throws EnvironmentError */
  score(outcome: Outcome, context: ScoreContext): Promise<number>;
  /** Runs `cleanup`. */
  close(signal: AbortSignal): Promise<void>;
}

export interface AgentContext {
  /** In an environment with seats, the model of the first one. */
  model: RolloutModel;
  trajectory: Trajectory;
  signal: AbortSignal;
  /** Absent in an environment with one agent. */
  seats?: Seats;
}

interface AgentError {
  error: unknown;
  /** Stop reason of the rollout if `onError` returns an outcome. */
  stopReason: string;
  /** Whether the conversation has reached the end of the model's context. */
  isAtContextEnd: boolean;
}

interface ScoreContext {
  trajectory: Trajectory;
  /** The seat to score. Absent in an environment with one agent. */
  seat?: string | undefined;
  signal: AbortSignal;
  /** Deadline of each reward in milliseconds. */
  timeoutMs: number;
}

export interface GroupScoring<Scenario, Outcome> {
  /** The number that the group rewards add to each member's reward. @throws EnvironmentError */
  score(
    context: GroupScoringContext<Scenario> & { members: readonly GroupMember<Outcome>[] },
  ): Promise<number[]>;
  /**
   * The credit of each call of a member, by the call's index; null without credit per call.
   * @throws EnvironmentError
   */
  credit(
    context: GroupScoringContext<Scenario> & { member: GroupMember<Outcome> },
  ): Promise<Map<number, number> | null>;
}

interface GroupScoringContext<Scenario> {
  scenario: Scenario;
  /** The seat that the members played. Absent in an environment with one agent. */
  seat?: string | undefined;
  signal: AbortSignal;
  /** Deadline of each function in milliseconds. */
  timeoutMs: number;
}

/** Whether a value of unknown type has the shape of an Environment. */
export function isEnvironment(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return 'name' in value && 'scenario' in value && 'open' in value && typeof value.open === 'function';
}
