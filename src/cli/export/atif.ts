import { type Choice, type Message, type ToolCall, textOf } from '../../contract/index.ts';
import type { GroupRecord } from '../../rollout/index.ts';
import { readableMessage, type TrajectoryRecord } from '../../trajectory/index.ts';
import { martingaleVersion } from '../../util/version.ts';

/**
 * A rollout in the Agent Trajectory Interchange Format (ATIF 1.7, of Harbor): messages as steps, results of tools as what
 * the step before observed, token ids and log-probabilities in its metrics, the reward in `extra`. Further conversations
 * are trajectories of subagents.
 */
export function atifOf(
  environment: string,
  { record, at }: { record: GroupRecord; at: number },
): object | null {
  const rollout = record.rollouts[at];
  const failure = rollout && rollout.status !== 'completed' ? record.failures[rollout.failure] : undefined;
  const trajectory =
    rollout?.status === 'completed' ? record.trajectories[rollout.trajectory] : failure?.trajectory;
  if (!rollout || !trajectory) return null;
  const [main, ...others] = [trajectory, ...(trajectory.additional_histories ?? [])].map((history, index) =>
    conversationOf(history, { trajectory, environment, id: `${trajectory.record.id}/${index}` }),
  );
  return {
    ...main,
    extra: {
      reward: rollout.status === 'completed' ? rollout.reward : null,
      metrics: trajectory.metrics ?? {},
      scenario: record.scenario,
      seed: rollout.seed,
      ...(failure ? { failure: { code: failure.code, message: failure.message } } : {}),
    },
    ...(others.length > 0 ? { subagent_trajectories: others } : {}),
  };
}

type HistoryRecord = Pick<TrajectoryRecord, 'messages_and_choices' | 'tools'>;

interface Step {
  source: 'system' | 'user' | 'agent';
  message: string;
  reasoning_content?: string;
  model_name?: string;
  tool_calls?: object[];
  observation?: { results: object[] };
  metrics?: object;
}

function conversationOf(
  { messages_and_choices: entries, tools }: HistoryRecord,
  { trajectory, environment, id }: { trajectory: TrajectoryRecord; environment: string; id: string },
) {
  const steps: Step[] = [];
  const model = trajectory.record.policy ?? undefined;
  for (const entry of entries) {
    const last = steps.at(-1);
    if (!('message' in entry) && entry.role === 'tool' && last?.source === 'agent') {
      last.observation ??= { results: [] };
      last.observation.results.push({
        ...(entry.tool_call_id ? { source_call_id: entry.tool_call_id } : {}),
        content: textOf(entry.content),
      });
    } else steps.push(stepOf(entry, model));
  }
  return {
    schema_version: 'ATIF-v1.7',
    session_id: trajectory.record.id,
    trajectory_id: id,
    agent: {
      name: environment,
      version: martingaleVersion,
      ...(model === undefined ? {} : { model_name: model }),
      ...(tools?.length ? { tool_definitions: tools } : {}),
    },
    steps: steps.map((step, index) => ({ step_id: index + 1, ...step })),
  };
}

function stepOf(entry: Message | Choice, model: string | undefined): Step {
  const isSampled = 'message' in entry;
  const { role, text, reasoning, toolCalls } = readableMessage(entry);
  if (role !== 'assistant')
    return { source: role === 'user' || role === 'tool' ? 'user' : 'system', message: text };
  return {
    source: 'agent',
    message: text,
    ...(reasoning ? { reasoning_content: reasoning } : {}),
    ...(isSampled && model !== undefined ? { model_name: model } : {}),
    ...(toolCalls.length > 0 ? { tool_calls: toolCalls.map(callOf) } : {}),
    ...(isSampled && entry.token_ids ? { metrics: metricsOf(entry) } : {}),
  };
}

const metricsOf = ({ token_ids: ids, logprobs, token_logprobs }: Choice) => ({
  completion_tokens: ids?.length ?? 0,
  completion_token_ids: ids,
  ...(token_logprobs ? { logprobs: token_logprobs } : {}),
  ...(logprobs?.content ? { logprobs: logprobs.content.map(({ logprob }) => logprob) } : {}),
});

function callOf({ id, function: { name, arguments: written } }: ToolCall): object {
  let values: unknown;
  try {
    values = JSON.parse(written);
  } catch {
    values = { unparsed: written };
  }
  const isObject = typeof values === 'object' && values !== null && !Array.isArray(values);
  return { tool_call_id: id, function_name: name, arguments: isObject ? values : { value: values } };
}
