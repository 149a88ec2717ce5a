import type { z } from 'zod';
import type { RolloutModel } from '../model/index.ts';
import type { RolloutLimits, Trajectory, UsedUpLimit } from '../trajectory/index.ts';
import type { SetupContext } from './options.ts';
import type { GroupMember } from './rewards/reward.ts';

/** Scenarios, what an agent does in one, and how that is scored. Made by `defineEnvironment`. */
export interface Environment<Schema extends z.ZodType = z.ZodType, Outcome = unknown> {
  readonly name: string;
  readonly scenario: Schema;
  /** What each rollout may use. */
  readonly limits: RolloutLimits;
  /** Names of the rewards and of the group rewards, in the order of definition. */
  readonly rewardNames: readonly string[];
  /** Whether rollouts have a state of their own, which is gone once they have ended. */
  readonly hasSetup: boolean;
  /** Deadline of the clean-up in milliseconds; null where there is none. */
  readonly cleanupTimeoutMs: number | null;
  /** Sets the environment up for one rollout. @throws EnvironmentError */
  open(context: SetupContext<z.output<Schema>>): Promise<OpenEnvironment<Outcome>>;
  /** What is known only when the whole group has ended; null where the environment has nothing of the kind. */
  readonly settlement: GroupSettlement<z.output<Schema>, Outcome> | null;
}

/** An environment set up for one rollout. Its state is known to its functions alone. */
export interface OpenEnvironment<Outcome> {
  /** Runs the agent once, to its end. */
  rollout(context: AgentContext): Promise<Outcome>;
  /** What came of a rollout that a limit ended; undefined where that is a failure. */
  readonly atLimit: ((context: AgentContext & { reason: UsedUpLimit }) => Promise<Outcome>) | undefined;
  /** What came of an agent that threw; undefined, or without this, it is a failure. */
  readonly onError:
    | ((context: AgentContext & AgentError) => Promise<{ outcome: Outcome } | undefined>)
    | undefined;
  /** The rollout's reward. @throws EnvironmentError */
  score(outcome: Outcome, context: ScoreContext): Promise<number>;
  /** Cleans up. */
  close(signal: AbortSignal): Promise<void>;
}

export interface AgentContext {
  model: RolloutModel;
  trajectory: Trajectory;
  signal: AbortSignal;
}

export interface AgentError {
  error: unknown;
  /** What the rollout's stop reason is if this has an outcome. */
  stopReason: string;
  /** Whether the conversation has met the end of the model's context. */
  isAtContextEnd: boolean;
}

export interface ScoreContext {
  trajectory: Trajectory;
  signal: AbortSignal;
  /** Deadline of each reward in milliseconds. */
  timeoutMs: number;
}

export interface GroupSettlement<Scenario, Outcome> {
  /** What the group rewards add to each member's reward. @throws EnvironmentError */
  score(
    context: SettlementContext<Scenario> & { members: readonly GroupMember<Outcome>[] },
  ): Promise<number[]>;
  /**
   * What each call of a member is credited with, by its index; null where calls are not credited one by one.
   * @throws EnvironmentError
   */
  credit(
    context: SettlementContext<Scenario> & { member: GroupMember<Outcome> },
  ): Promise<Map<number, number> | null>;
}

export interface SettlementContext<Scenario> {
  scenario: Scenario;
  signal: AbortSignal;
  /** Deadline of each function in milliseconds. */
  timeoutMs: number;
}

/** Whether a value that no type has checked is what `defineEnvironment` gives. */
export function isEnvironment(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return 'name' in value && 'scenario' in value && 'open' in value && typeof value.open === 'function';
}
