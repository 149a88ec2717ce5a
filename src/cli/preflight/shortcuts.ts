import { type ChatCompletionRequest, textOf } from '../../contract/index.ts';
import type { Environment } from '../../environment/index.ts';
import { type ScriptedReply, scriptedModel } from '../../model/index.ts';
import { type RolloutGroup, runGroups } from '../../rollout/index.ts';
import { Deadline } from '../../util/deadline.ts';
import { meanOrNull } from '../../util/sums.ts';

/** A way to answer without understanding. */
interface Shortcut {
  name: string;
  answer: (request: ChatCompletionRequest) => ScriptedReply;
}

export interface ShortcutResult {
  name: string;
  /** Mean reward; null if no rollout completed. */
  reward: number | null;
  completed: number;
  rollouts: number;
  /** Whether its time was up before all its rollouts had ended. */
  outOfTime: boolean;
}

/**
 * The shortcuts to try: fixed replies, what the model itself says most, its longest reply, the tool calls with which it
 * begins most, and the prompt repeated.
 */
export function shortcutsOf(groups: readonly RolloutGroup[]): Shortcut[] {
  const replies = groups.flatMap(({ rollouts }) =>
    rollouts.flatMap(({ trajectory }) => {
      const content = trajectory.log.calls.at(-1)?.choice.message.content;
      return typeof content === 'string' && content !== '' ? [content] : [];
    }),
  );
  const counts = new Map<string, number>();
  for (const reply of replies) counts.set(reply, (counts.get(reply) ?? 0) + 1);
  const [most] = [...counts].sort(([, a], [, b]) => b - a);
  const longest = replies.reduce((long, reply) => (reply.length > long.length ? reply : long), '');
  const always = (name: string, text: string): Shortcut => ({ name, answer: () => text });
  return [
    always('an empty reply', ''),
    always('always "yes"', 'yes'),
    ...(most ? [always("always the model's most frequent reply", most[0])] : []),
    ...(longest !== '' && longest !== most?.[0] ? [always("always the model's longest reply", longest)] : []),
    ...callsOf(groups, most?.[0] ?? 'done'),
    { name: 'the prompt repeated', answer: repeatPrompt },
  ];
}

/** The tool calls of the most frequent first reply, and `end` once they have results. */
function callsOf(groups: readonly RolloutGroup[], end: string): Shortcut[] {
  const counts = new Map<string, number>();
  for (const { trajectory } of groups.flatMap(({ rollouts }) => rollouts)) {
    const calls = trajectory.log.calls[0]?.choice.message.tool_calls ?? [];
    if (calls.length === 0) continue;
    const key = JSON.stringify(calls.map((call) => [call.function.name, call.function.arguments]));
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const [most] = [...counts].sort(([, a], [, b]) => b - a);
  if (!most) return [];
  const toolCalls = (JSON.parse(most[0]) as [string, string][]).map(([name, text]) => ({
    name,
    arguments: argumentsOf(text),
  }));
  const answer = ({ messages }: ChatCompletionRequest): ScriptedReply =>
    messages.at(-1)?.role === 'tool' ? end : { toolCalls };
  return [{ name: "always the model's most frequent first call", answer }];
}

function argumentsOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

const repeatPrompt = ({ messages }: ChatCompletionRequest): string =>
  textOf(messages.findLast(({ role }) => role === 'user')?.content);

interface ShortcutsToTry {
  environment: Environment;
  scenarios: readonly unknown[];
  /** Longest time of each shortcut, in milliseconds. An agent may wait and repeat calls whose reply it cannot use. */
  limitMs: number;
  /** Called as rollouts of a shortcut end. */
  onProgress: (name: string, progress: { done: number; total: number }) => void;
  signal: AbortSignal;
}

/** What each shortcut earns on the scenarios, one rollout each. */
export async function tryShortcuts(
  shortcuts: readonly Shortcut[],
  { environment, scenarios, limitMs, onProgress, signal }: ShortcutsToTry,
): Promise<ShortcutResult[]> {
  const results: ShortcutResult[] = [];
  for (const { name, answer } of shortcuts) {
    if (signal.aborted) break;
    onProgress(name, { done: 0, total: scenarios.length });
    const deadline = new Deadline(limitMs, signal);
    const { groups, counts } = await runGroups({
      environment,
      scenarios,
      rolloutsPerGroup: 1,
      model: scriptedModel(answer),
      onProgress: (progress) => onProgress(name, progress),
      signal: deadline.signal,
    }).finally(() => deadline.clear());
    const rewards = groups.flatMap(({ trajectories }) => trajectories.flatMap(({ reward }) => reward ?? []));
    results.push({
      name,
      reward: meanOrNull(rewards),
      completed: counts.completed,
      rollouts: counts.dispatched,
      outOfTime: deadline.expired && counts.cancelled > 0,
    });
  }
  return results;
}
