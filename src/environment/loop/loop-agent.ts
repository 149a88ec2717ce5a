import type { SetupContext } from '../contexts.ts';
import type { OpenEnvironment } from '../environment.ts';
import type { LoopOutcome } from './outcome.ts';
import type { LoopPieces } from './pieces.ts';
import { LoopProgress } from './progress.ts';
import { runLoop } from './run-loop.ts';

/** The agent whose conversation is led from its pieces. A limit ends it like any other reason. */
export function loopAgent<Scenario, State, Parsed>(
  pieces: LoopPieces<Scenario, State, Parsed>,
  { scenario, seed }: SetupContext<Scenario>,
  state: State,
): Pick<OpenEnvironment<LoopOutcome<Parsed>>, 'rollout' | 'atLimit'> {
  const progress = new LoopProgress<Parsed>();
  return {
    rollout: async (agent) => {
      const reason = await runLoop(pieces, { scenario, state, seed, ...agent }, progress);
      agent.trajectory.stopReason ??= reason;
      return progress.toOutcome(agent.trajectory.stopReason);
    },
    atLimit: async ({ reason }) => progress.toOutcome(reason),
  };
}
