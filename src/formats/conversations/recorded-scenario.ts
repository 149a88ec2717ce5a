import { z } from 'zod';
import { toolCallSchema, toolSchema } from '../../contract/index.ts';

const openingMessage = z.object({ role: z.enum(['system', 'user']), content: z.string() });

/** The recorded reply: the assistant's message that followed the opening. */
const replySchema = z.object({
  role: z.literal('assistant'),
  content: z.string().nullable(),
  reasoning: z.string().optional(),
  tool_calls: z.array(toolCallSchema).optional(),
});

/**
 * A scenario of a recorded conversation, as `readScenarios` and `martingale scenarios` give it: the opening of the
 * conversation, which any agent can answer, and what was answered then. Use it as the `scenario` of an environment.
 */
export const recordedScenario = z.object({
  /** A hash of the opening and its tools. */
  id: z.string(),
  /** All messages before the first reply, with their text. Messages of developers are `system`. */
  messages: z.array(openingMessage).min(1),
  /** The tools that the model was offered. */
  tools: z.array(toolSchema).optional(),
  /** The first recorded reply; absent if it was not recorded, or the call failed. */
  reply: replySchema.optional(),
  /** The model that replied. */
  model: z.string().optional(),
  /** Conversation, session or trace of the first recording. All scenarios of a group are on one side of the split. */
  group: z.string().optional(),
  /** Time of the first recording, ISO 8601. */
  time: z.string().optional(),
});

export type RecordedScenario = z.output<typeof recordedScenario>;
export type RecordedReply = z.output<typeof replySchema>;

/** One recorded model call, whatever recorded it. */
export interface RecordedCall {
  messages: RecordedScenario['messages'];
  /** The reply to them, of this call or an earlier one. */
  reply: RecordedReply | null;
  tools: RecordedScenario['tools'];
  model: string | null;
  /** The id of its conversation or session; null if unknown. */
  conversation: string | null;
  /** The id of its trace; null if it was no span. */
  trace: string | null;
  /** Unix time in milliseconds; null if unknown. */
  timeMs: number | null;
}

/** What a source holds and cannot become a scenario. Its message is the reason, and is counted. */
export class Unreadable extends Error {}
