import type { TextSet } from '../environment/index.ts';
import type { TokenUsage } from '../evaluation/index.ts';
import { type Rollout, type RolloutGroup, trajectoriesOf } from '../rollout/index.ts';
import { readableMessage, type Trajectory } from '../trajectory/index.ts';
import { withDeadline } from '../util/deadline.ts';
import { messageOf } from '../util/error.ts';
import { OptimizationError } from './error.ts';
import type { OptimizeOptions, ReflectionExample, ReflectionRequest } from './options.ts';

/** Longest conversation in a prompt, in characters; of a longer one, the middle is left out. */
const maxConversation = 12_000;

/** Answer of a reflection. */
interface Reflection {
  /** The new text; null if there is none. */
  proposed: string | null;
  /** The whole answer of a model; null from a function. */
  answer: string | null;
  usage: TokenUsage;
}

interface ReflectOptions extends Pick<OptimizeOptions<never, unknown, never>, 'reflect'> {
  timeoutMs: number;
  signal: AbortSignal | undefined;
}

/**
 * Asks for a better text.
 * @throws OptimizationError if `reflect` throws or does not answer in time; the reason of `signal`.
 */
export async function reflectOn(
  { name, texts, groups }: { name: string; texts: TextSet; groups: readonly RolloutGroup[] },
  { reflect, timeoutMs, signal }: ReflectOptions,
): Promise<Reflection> {
  const text = texts[name] ?? '';
  const examples = groups.flatMap(({ scenario, rollouts }) =>
    rollouts.map((rollout) => exampleOf(scenario, rollout)),
  );
  const prompt = promptOf({ name, text, texts, examples });
  const timedOut = () =>
    new OptimizationError(
      'reflection_failed',
      `\`reflect\` did not answer within ${timeoutMs} ms. Raise \`reflectTimeoutMs\`, then continue with \`resume\`.`,
    );
  try {
    return await withDeadline({ timeoutMs, signal, timedOut }, (ending) =>
      ask(reflect, { name, text, texts, examples, prompt, signal: ending }),
    );
  } catch (cause) {
    if (cause instanceof OptimizationError) throw cause;
    signal?.throwIfAborted();
    throw new OptimizationError(
      'reflection_failed',
      `\`reflect\` threw: ${messageOf(cause)}. Fix the cause, then continue with \`resume\`: nothing is paid twice.`,
      { cause },
    );
  }
}

async function ask(reflect: ReflectOptions['reflect'], request: ReflectionRequest): Promise<Reflection> {
  if (typeof reflect === 'function') {
    const reflected = await reflect(request);
    const whole =
      typeof reflected === 'object' && reflected !== null
        ? reflected
        : { text: reflected, promptTokens: 0, sampledTokens: 0 };
    const { text, promptTokens, sampledTokens } = whole;
    if (text !== null && text !== undefined && typeof text !== 'string')
      throw new TypeError(`it returned ${typeof text}, and not a text or null`);
    return { proposed: text?.trim() || null, answer: null, usage: { promptTokens, sampledTokens } };
  }
  const { generateText } = await import('ai');
  const { text, usage } = await generateText({
    model: reflect,
    prompt: request.prompt,
    abortSignal: request.signal,
  });
  return {
    proposed: readProposal(text),
    answer: text,
    usage: { promptTokens: usage.inputTokens ?? 0, sampledTokens: usage.outputTokens ?? 0 },
  };
}

const [opening, closing] = ['<new_text>', '</new_text>'];

/** The text between the first opening and the last closing mark of an answer; null without both, and for an empty one. */
function readProposal(answer: string): string | null {
  const [from, to] = [answer.indexOf(opening), answer.lastIndexOf(closing)];
  if (from < 0 || to < from + opening.length) return null;
  return answer.slice(from + opening.length, to).trim() || null;
}

function promptOf({ name, text, texts, examples }: Omit<ReflectionRequest, 'prompt' | 'signal'>): string {
  const others = Object.entries(texts).filter(([other]) => other !== name);
  return [
    `An AI agent does a task. One of the texts that it is given is called "${name}". Improve this text.`,
    `The text now:\n<text>\n${text}\n</text>`,
    ...(others.length > 0
      ? [
          'The agent is given these texts as well. They stay as they are:',
          ...others.map(([other, content]) => `<other_text name="${other}">\n${content}\n</other_text>`),
        ]
      : []),
    'What the agent did with it, and how that was scored (a higher reward is better):',
    ...examples.map(exampleText),
    [
      'First find out what the task is, what a good result is, and what went wrong where the reward is low. Then write',
      'the whole new text. Put into it what the agent has to know in every case: rules, facts, the form of the answer,',
      'ways that worked. Do not put the answers to these examples into it: it is used for other cases.',
    ].join(' '),
    `End with the new text between ${opening} and ${closing}.`,
  ].join('\n\n');
}

function exampleText(example: ReflectionExample, at: number): string {
  const { scenario, reward, metrics, notes, failure, conversation } = example;
  return [
    `<example number="${at + 1}">`,
    `Case: ${asJson(scenario)}`,
    `Conversation:\n${conversation || '(none)'}`,
    failure === null ? `Reward: ${reward}` : `It failed: ${failure}`,
    ...(Object.keys(metrics).length > 0 ? [`Metrics: ${asJson(metrics)}`] : []),
    ...notes.map((note) => `Note: ${note}`),
    '</example>',
  ].join('\n');
}

/** JSON, or the text of a value that has none: a schema may make any value. */
function asJson(value: unknown): string {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
}

function exampleOf(scenario: unknown, rollout: Rollout): ReflectionExample {
  const trajectories = trajectoriesOf(rollout);
  const { metrics, logs } = rollout.trajectory;
  return {
    scenario,
    reward: rollout.status === 'completed' ? rollout.reward : null,
    metrics: { ...metrics },
    notes: [...logs],
    failure: rollout.status === 'completed' ? null : `${rollout.failure.code}: ${rollout.failure.message}`,
    conversation: shortened(trajectories.map(conversationOf).join('\n---\n')),
  };
}

const conversationOf = ({ histories }: Trajectory): string =>
  (histories[0]?.entries ?? [])
    .map((entry) => {
      const { role, text, toolCalls } = readableMessage(entry);
      const calls = toolCalls.map(({ function: called }) => `[calls ${called.name} ${called.arguments}]`);
      return `${role}: ${[text, ...calls].filter(Boolean).join('\n')}`;
    })
    .join('\n');

const shortened = (text: string): string =>
  text.length <= maxConversation
    ? text
    : `${text.slice(0, maxConversation / 2)}\n[... ${text.length - maxConversation} characters ...]\n${text.slice(-maxConversation / 2)}`;
