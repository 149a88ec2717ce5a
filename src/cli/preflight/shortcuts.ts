import type { ChatCompletionRequest } from '../../contract/index.ts';
import type { Environment } from '../../environment/index.ts';
import { type ScriptedReply, scriptedModel } from '../../model/index.ts';
import { type RolloutGroup, runGroups } from '../../rollout/index.ts';
import { textOf } from '../../trajectory/index.ts';

/** A way to answer without understanding. */
export interface Shortcut {
  name: string;
  answer: (request: ChatCompletionRequest) => ScriptedReply;
}

export interface ShortcutResult {
  name: string;
  /** Mean reward; null if no rollout completed. */
  reward: number | null;
  completed: number;
  rollouts: number;
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

/** What each shortcut earns on the scenarios, one rollout each. */
export async function tryShortcuts(
  shortcuts: readonly Shortcut[],
  {
    environment,
    scenarios,
    signal,
  }: { environment: Environment; scenarios: readonly unknown[]; signal: AbortSignal },
): Promise<ShortcutResult[]> {
  const results: ShortcutResult[] = [];
  for (const shortcut of shortcuts) {
    const model = scriptedModel(shortcut.answer);
    const { groups, counts } = await runGroups({
      environment,
      scenarios,
      rolloutsPerGroup: 1,
      model,
      signal,
    });
    const rewards = groups.flatMap(({ trajectories }) => trajectories.flatMap(({ reward }) => reward ?? []));
    results.push({
      name: shortcut.name,
      reward: rewards.length > 0 ? rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length : null,
      completed: counts.completed,
      rollouts: counts.dispatched,
    });
  }
  return results;
}
