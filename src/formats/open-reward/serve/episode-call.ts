import type { LanguageModelV4Message } from '@ai-sdk/provider';
import type { ModelMessage } from 'ai';
import { z } from 'zod';
import type { LoopOutcome } from '../../../environment/index.ts';
import type { Rollout } from '../../../rollout/index.ts';
import type { Block, ToolList } from '../protocol.ts';
import { answerBlocks } from './blocks.ts';

export interface EpisodeCall {
  name: string;
  input: Readonly<Record<string, unknown>>;
}

/** The rollout of an episode that is over. */
export type Ended = Rollout<LoopOutcome<unknown>>;

/**
 * The input without nulls where its tool's schema has an optional argument that is no null: clients such as TRL's send
 * them for what the model left out.
 */
export function withoutEmpty(
  input: EpisodeCall['input'],
  name: string,
  tools: ToolList['tools'],
): EpisodeCall['input'] {
  const schema = objectSchema.safeParse(tools.find((tool) => tool.name === name)?.input_schema);
  if (!schema.success) return input;
  const { properties, required } = schema.data;
  const isLeftOut = ([field, value]: [string, unknown]) =>
    value === null &&
    !required.includes(field) &&
    Object.hasOwn(properties, field) &&
    !JSON.stringify(properties[field]).includes('"null"');
  return Object.fromEntries(Object.entries(input).filter((entry) => !isLeftOut(entry)));
}

const objectSchema = z.object({
  properties: z.record(z.string(), z.unknown()).default({}),
  required: z.array(z.string()).default([]),
});

/** The answer to a call that came after the end. */
export const notRun = (name: string, { trajectory }: Ended): Block => ({
  type: 'text',
  text: `The episode has ended (${trajectory.stopReason ?? 'finished'}): "${name}" was not run.`,
});

/** The results of tools after the last reply of a conversation that has ended. */
export function lastBlocks(ended: Ended): Block[] {
  if (ended.status !== 'completed') return [];
  const { messages } = ended.outcome;
  const last = messages.slice(messages.findLastIndex(({ role }) => role === 'assistant') + 1);
  return answerBlocks(last.filter(isToolMessage));
}

type ToolMessage = Extract<LanguageModelV4Message, { role: 'tool' }>;

/** Results of tools have the same form in messages of the AI SDK and in prompts. */
const isToolMessage = (message: ModelMessage | ToolMessage): message is ToolMessage =>
  message.role === 'tool';

/** The message of the AI SDK for an input that does not fit the schema of its tool. */
export const isInvalidInput = (error: string, tool: string): boolean =>
  error.replace(/^AI_InvalidToolInputError: /, '').startsWith(`Invalid input for tool ${tool}:`);
