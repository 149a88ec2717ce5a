import type { z } from 'zod';
import type { SetupContext } from '../contexts.ts';
import type { OpenEnvironment } from '../environment.ts';
import { askOnError } from '../on-error.ts';
import type { LoopEnvironmentOptions } from '../options.ts';
import { scoredErrorMetric } from '../own-metrics.ts';
import type { LoopOutcome } from './outcome.ts';
import type { LoopPieces } from './pieces.ts';
import { LoopProgress } from './progress.ts';
import { runLoop } from './run-loop.ts';

/** The agent whose conversation is led from its pieces. A limit ends it like any other reason. */
export function loopAgent<Scenario, State, Parsed>(
  {
    onError,
    ...pieces
  }: LoopPieces<Scenario, State, Parsed> &
    Pick<LoopEnvironmentOptions<z.ZodType<Scenario>, Parsed, State>, 'onError'>,
  { scenario, seed }: SetupContext<Scenario>,
  state: State,
): Pick<OpenEnvironment<LoopOutcome<Parsed>>, 'rollout' | 'atLimit' | 'onError'> {
  const progress = new LoopProgress<Parsed>();
  const own = { scenario, state, seed };
  return {
    rollout: async (agent) => {
      if (onError) agent.trajectory.metrics[scoredErrorMetric] = 0;
      const reason = await runLoop(pieces, { ...own, ...agent }, progress);
      agent.trajectory.stopReason ??= reason;
      return progress.toOutcome(agent.trajectory.stopReason);
    },
    atLimit: async ({ reason }) => progress.toOutcome(reason),
    onError:
      onError &&
      (({ error, stopReason, isAtContextEnd: _, ...agent }) => {
        const outcome = progress.toOutcome(stopReason);
        return askOnError(agent.trajectory, error, () => onError({ ...own, ...agent, error, outcome }));
      }),
  };
}
