import { Output } from 'ai';
import { z } from 'zod';

export const openings = ['so sorry', 'hello', 'sure', 'great', 'well'] as const;
export const bodies = [
  'we fix it today',
  'it is on its way',
  'here are the steps',
  'enjoy it',
  'look it up',
] as const;
export const closings = [
  'you can count on us',
  'bye',
  'ask me anything',
  'thanks to you',
  'that is all',
] as const;

export const replySchema = z.object({
  opening: z.enum(openings),
  body: z.enum(bodies),
  closing: z.enum(closings),
});

/** The agent's reply: three sentences, 125 combinations. */
export type Reply = z.infer<typeof replySchema>;

export const replyOutput = Output.object({ schema: replySchema });
