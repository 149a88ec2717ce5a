import { randomUUID } from 'node:crypto';
import type { Choice, Message } from '../../contract/index.ts';
import { titleOfScenario } from '../../environment/index.ts';
import type { GroupRecord } from '../../rollout/index.ts';
import { readableMessage, type TrajectoryRecord } from '../../trajectory/index.ts';
import { largestOf } from '../../util/extremes.ts';
import { sumOf } from '../../util/sums.ts';
import { martingaleVersion } from '../../util/version.ts';

interface InspectSource {
  run: string;
  environment: string;
  /** The model's name without its step. */
  model: string;
  /** ISO 8601. */
  started: string;
}

/**
 * A log in the JSON form of Inspect (inspect_ai's `EvalLog`, version 2), which its viewer opens: a sample for each
 * scenario of a step, an epoch for each of its rollouts, its reward and metrics as scores.
 */
export function inspectLog(
  { run, environment, model, started }: InspectSource,
  groups: readonly { name: string; record: GroupRecord }[],
): object {
  const samples = groups.flatMap(({ name, record }) =>
    record.rollouts.map((_, at) => sampleOf(name, record, at, model)),
  );
  const rewards = samples.flatMap(({ scores }) => scores.reward?.value ?? []);
  const mean = sumOf(rewards) / Math.max(1, rewards.length);
  return {
    version: 2,
    status: 'success',
    eval: {
      eval_id: randomUUID(),
      run_id: randomUUID(),
      created: started,
      task: environment,
      task_id: randomUUID(),
      task_version: 0,
      task_attribs: {},
      task_args: {},
      dataset: { name: run, samples: groups.length, sample_ids: groups.map(idOf), shuffled: false },
      model: `martingale/${model}`,
      model_args: {},
      model_generate_config: {},
      config: {
        epochs: largestOf(
          groups.map(({ record }) => record.rollouts.length),
          1,
        ),
      },
      packages: { martingale: martingaleVersion },
    },
    plan: { name: 'plan', steps: [], config: {} },
    results: {
      total_samples: samples.length,
      completed_samples: samples.filter(({ error }) => error === undefined).length,
      scores: [
        {
          name: 'reward',
          scorer: 'reward',
          params: {},
          metrics: { mean: { name: 'mean', value: mean, params: {} } },
        },
      ],
    },
    stats: { started_at: started, completed_at: started, model_usage: {} },
    samples,
  };
}

const idOf = ({ name, record }: { name: string; record: GroupRecord }): string => `${name}/${record.group}`;

function sampleOf(name: string, record: GroupRecord, at: number, model: string) {
  const rollout = record.rollouts[at];
  const failure = rollout && rollout.status !== 'completed' ? record.failures[rollout.failure] : undefined;
  const trajectory =
    rollout?.status === 'completed' ? record.trajectories[rollout.trajectory] : failure?.trajectory;
  const last = trajectory?.messages_and_choices.findLast((entry) => 'message' in entry);
  const scores: Record<string, { value: number }> =
    rollout?.status === 'completed'
      ? {
          reward: { value: rollout.reward },
          ...Object.fromEntries(
            Object.entries(trajectory?.metrics ?? {}).map(([metric, value]) => [
              metric,
              { value: Number(value) },
            ]),
          ),
        }
      : {};
  return {
    id: idOf({ name, record }),
    epoch: at + 1,
    input: titleOfScenario(record.scenario, record.title),
    target: '',
    messages: trajectory?.messages_and_choices.map((entry) => messageOf(entry, model)) ?? [],
    output: { model, choices: last && 'message' in last ? [choiceOf(last, model)] : [], completion: '' },
    scores,
    metadata: { scenario: record.scenario, ...metadataOf(trajectory) },
    store: {},
    events: [],
    model_usage: {},
    attachments: {},
    uuid: randomUUID(),
    ...(failure
      ? {
          error: {
            message: failure.message,
            traceback: failure.stack ?? '',
            traceback_ansi: failure.stack ?? '',
          },
        }
      : {}),
  };
}

const metadataOf = (trajectory: TrajectoryRecord | undefined) => ({
  ...trajectory?.metadata,
  policy: trajectory?.record.policy ?? null,
  milliseconds: trajectory?.record.milliseconds ?? null,
});

function choiceOf(choice: Choice, model: string) {
  const reasons: Record<string, string> = { stop: 'stop', length: 'max_tokens', tool_calls: 'tool_calls' };
  return {
    message: messageOf(choice, model),
    stop_reason: reasons[choice.finish_reason] ?? 'unknown',
  };
}

/** A message as Inspect has it: reasoning is a part of its content, arguments of tools are values. */
function messageOf(entry: Message | Choice, model: string): object {
  const isSampled = 'message' in entry;
  const { role, text, reasoning, toolCalls } = readableMessage(entry);
  const base = { id: randomUUID(), role: role === 'developer' ? 'system' : role };
  if (!isSampled && entry.role === 'tool')
    return { ...base, content: text, tool_call_id: entry.tool_call_id };
  if (role !== 'assistant') return { ...base, content: text };
  return {
    ...base,
    content: reasoning
      ? [
          { type: 'reasoning', reasoning },
          { type: 'text', text },
        ]
      : text,
    ...(isSampled ? { source: 'generate', model } : {}),
    ...(toolCalls.length > 0
      ? {
          tool_calls: toolCalls.map(({ id, function: called }) => ({
            id,
            function: called.name,
            arguments: argumentsOf(called.arguments),
            type: 'function',
          })),
        }
      : {}),
  };
}

function argumentsOf(text: string): object {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : { value };
  } catch {
    return { unparsed: text };
  }
}
