import type { z } from 'zod';
import type { Trajectory } from '../trajectory/index.ts';
import type { AgentContext, OpenEnvironment } from './environment.ts';
import { EnvironmentError } from './errors.ts';
import type { LoopOutcome, LoopPieces } from './loop/pieces.ts';
import { type LoopProgress, runLoop } from './loop/run-loop.ts';
import { scoredErrorMetric } from './metrics.ts';
import type { LoopEnvironmentOptions, RolloutEnvironmentOptions, SetupContext } from './options.ts';
import type { Seat, SeatEnvironmentOptions } from './seats.ts';
import type { TextSet } from './texts.ts';
import { codeOfThrown, describeThrown, describeWithLocation } from './thrown.ts';

/** The agent of an environment with `rollout`. */
export function rolloutAgent<Schema extends z.ZodType, Outcome, State, Texts extends TextSet>(
  { rollout, atLimit, onError }: RolloutEnvironmentOptions<Schema, Outcome, State, Texts>,
  { scenario, texts, seed }: SetupContext<z.output<Schema>, Texts>,
  state: State,
): Pick<OpenEnvironment<Outcome>, 'rollout' | 'atLimit' | 'onError'> {
  const own = { scenario, texts, state, seed };
  return {
    rollout: async (agent) => {
      if (onError) agent.trajectory.metrics[scoredErrorMetric] = 0;
      return rollout({ ...own, ...agent });
    },
    atLimit: atLimit && (async (agent) => atLimit({ ...own, ...agent })),
    onError:
      (atLimit || onError) &&
      (async ({ error, stopReason: _, isAtContextEnd, ...agent }) => {
        if (isAtContextEnd && atLimit)
          return { outcome: await atLimit({ ...own, ...agent, reason: 'context_limit' }) };
        return onError && callOnError(agent.trajectory, error, () => onError({ ...own, ...agent, error }));
      }),
  };
}

/** The agents of an environment with seats. */
export function seatAgents<
  Schema extends z.ZodType,
  Outcome,
  State,
  Name extends string,
  Texts extends TextSet,
>(
  { rollout, atLimit, onError, seats }: SeatEnvironmentOptions<Schema, Outcome, State, Name, Texts>,
  { scenario, texts, seed }: SetupContext<z.output<Schema>, Texts>,
  state: State,
): Pick<OpenEnvironment<Outcome>, 'rollout' | 'atLimit' | 'onError'> {
  const contextOf = ({ seats: given = {}, signal }: AgentContext) => {
    const named = Object.fromEntries(seats.map((name) => [name, given[name]]));
    requireSeats(named, seats);
    return { scenario, texts, state, seed, seats: named, signal };
  };
  return {
    rollout: async (agent) => {
      const context = contextOf(agent);
      if (onError) for (const name of seats) context.seats[name].trajectory.metrics[scoredErrorMetric] = 0;
      return rollout(context);
    },
    atLimit: atLimit && (async ({ reason, ...agent }) => atLimit({ ...contextOf(agent), reason })),
    onError:
      (atLimit || onError) &&
      (async ({ error, stopReason: _, isAtContextEnd, ...agent }) => {
        const context = contextOf(agent);
        if (isAtContextEnd && atLimit)
          return { outcome: await atLimit({ ...context, reason: 'context_limit' }) };
        return onError && callOnError(agent.trajectory, error, () => onError({ ...context, error }));
      }),
  };
}

function requireSeats<Name extends string>(
  seats: Record<string, Seat | undefined>,
  names: readonly Name[],
): asserts seats is Record<Name, Seat> {
  for (const name of names) if (!seats[name]) throw new TypeError(`The rollout has no seat "${name}".`);
}

/** The agent of an environment of pieces. A conversation that a limit ends is scored like any other. */
export function loopAgent<Scenario, State, Parsed, Texts extends TextSet>(
  {
    onError,
    ...pieces
  }: LoopPieces<Scenario, State, Parsed, Texts> &
    Pick<LoopEnvironmentOptions<z.ZodType<Scenario>, Parsed, State, Texts>, 'onError'>,
  { scenario, texts, seed }: SetupContext<Scenario, Texts>,
  state: State,
): Pick<OpenEnvironment<LoopOutcome<Parsed>>, 'rollout' | 'atLimit' | 'onError'> {
  const progress: LoopProgress<Parsed> = { text: '', output: null, messages: [], turns: 0 };
  const outcomeNow = (stopReason: string) => ({
    ...progress,
    messages: [...progress.messages],
    stopReason,
  });
  const own = { scenario, texts, state, seed };
  return {
    rollout: async (agent) => {
      if (onError) agent.trajectory.metrics[scoredErrorMetric] = 0;
      const reason = await runLoop(pieces, { ...own, ...agent }, progress);
      agent.trajectory.stopReason ??= reason;
      return outcomeNow(agent.trajectory.stopReason);
    },
    atLimit: async ({ reason }) => outcomeNow(reason),
    onError:
      onError &&
      (({ error, stopReason, isAtContextEnd: _, ...agent }) => {
        const outcome = outcomeNow(stopReason);
        return callOnError(agent.trajectory, error, () => onError({ ...own, ...agent, error, outcome }));
      }),
  };
}

/**
 * Calls the environment's `onError`. Undefined if it returns undefined or throws the same error again. An outcome sets
 * the trajectory's metric `scored_errors` and adds a line to its logs.
 * @throws EnvironmentError (`on_error_failed`) if `onError` throws another error.
 */
async function callOnError<Outcome>(
  { metrics, logs }: Trajectory,
  error: unknown,
  onError: () => Outcome | undefined | PromiseLike<Outcome | undefined>,
): Promise<{ outcome: Outcome } | undefined> {
  let outcome: Outcome | undefined;
  try {
    outcome = await onError();
  } catch (thrown) {
    if (thrown === error) return undefined;
    throw new EnvironmentError(
      'on_error_failed',
      `\`onError\` threw: ${describeThrown(thrown)}. It was called for: ${describeThrown(error)}`,
      { cause: thrown, errors: [thrown, error] },
    );
  }
  if (outcome === undefined) return undefined;
  metrics[scoredErrorMetric] = 1;
  logs.push(`\`onError\` returned an outcome for ${codeOfThrown(error)}: ${describeWithLocation(error)}`);
  return { outcome };
}
