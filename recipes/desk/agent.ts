import { type LanguageModel, Output, stepCountIs, ToolLoopAgent, tool } from 'ai';
import { z } from 'zod';

export const toolNames = ['refund', 'track', 'cancel'] as const;
export type ToolName = (typeof toolNames)[number];

/** Runs a tool on an order and returns the text that the agent reads. */
export type Desk = (tool: ToolName, order: string) => string;

const inputSchema = z.object({ order: z.string().regex(/^[0-9]{4}$/) });

/** The agent's answer to the customer: whether it worked, and the code from the tool's result. */
export const answerSchema = z.object({
  verdict: z.enum(['done', 'sorry']),
  code: z.string().regex(/^[0-9]{2}$/),
});

export type Answer = z.infer<typeof answerSchema>;

export const answerOutput = Output.object({ schema: answerSchema });

export const deskTools = (desk: Desk) => ({
  refund: tool({ description: 'Pay back', inputSchema, execute: ({ order }) => desk('refund', order) }),
  track: tool({ description: 'Find', inputSchema, execute: ({ order }) => desk('track', order) }),
  cancel: tool({ description: 'Stop', inputSchema, execute: ({ order }) => desk('cancel', order) }),
});

/** The support agent: it calls one tool, then answers. */
export const createDeskAgent = (model: LanguageModel, desk: Desk) =>
  new ToolLoopAgent({
    model,
    tools: deskTools(desk),
    output: answerOutput,
    stopWhen: stepCountIs(2),
  });
