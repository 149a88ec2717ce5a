import type { TrajectoryRecord } from '../trajectory/index.ts';
import type { Stretch } from './api.ts';

type Calls = TrajectoryRecord['record']['calls'];

/** Shorter stretches cannot be seen. */
const leastMs = 0.5;

/**
 * What a rollout waited for, in order of time: calls as they were recorded; between them the tools that the reply before
 * asked for, or the agent's own work; after the agent's end its rewards. Calls may overlap. Empty for a record without
 * the times of calls.
 */
export function stretchesOf(trajectory: TrajectoryRecord, durationMs: number): Stretch[] {
  const { calls, milliseconds: agentMs } = trajectory.record;
  const timed = calls.filter(({ milliseconds }) => milliseconds);
  if (timed.length === 0) return [];
  const waits = timed.flatMap(({ index, milliseconds: [begun, sent, answered] = [0, 0, 0] }): Stretch[] => [
    { kind: 'queue', name: `call ${index}`, start: begun, end: sent },
    { kind: 'sampling', name: `call ${index}`, start: sent, end: answered },
  ]);
  const end: Stretch[] = [{ kind: 'reward', name: 'rewards', start: agentMs, end: durationMs }];
  return [...waits, ...betweenCalls(timed, trajectory, agentMs), ...end]
    .filter(({ start, end: to }) => to - start >= leastMs)
    .sort((a, b) => a.start - b.start);
}

/** The times in which no call was under way. */
function betweenCalls(calls: Calls, trajectory: TrajectoryRecord, agentMs: number): Stretch[] {
  const stretches: Stretch[] = [];
  const conversations = [trajectory, ...(trajectory.additional_histories ?? [])];
  let free = 0;
  let tools: string[] = [];
  const byStart = [...calls].sort((a, b) => (a.milliseconds?.[0] ?? 0) - (b.milliseconds?.[0] ?? 0));
  const fill = (until: number) =>
    stretches.push(
      tools.length > 0
        ? { kind: 'tool', name: tools.join(', '), start: free, end: until }
        : { kind: 'own', name: 'agent', start: free, end: until },
    );
  for (const { milliseconds: [begun, , answered] = [0, 0, 0], history, entry } of byStart) {
    if (begun > free) fill(begun);
    if (answered <= free) continue;
    free = answered;
    const reply = conversations[history]?.messages_and_choices[entry];
    tools =
      reply && 'message' in reply ? (reply.message.tool_calls ?? []).map((call) => call.function.name) : [];
  }
  if (agentMs > free) fill(agentMs);
  return stretches;
}
