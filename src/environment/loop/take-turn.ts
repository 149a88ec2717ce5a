import {
  generateText,
  type LanguageModel,
  type ModelMessage,
  NoObjectGeneratedError,
  type Output,
  ToolChoiceViolationError,
  type ToolSet,
} from 'ai';
import { EnvironmentError, pieceError } from '../errors.ts';
import { describeThrown } from '../thrown.ts';
import type { LoopPieces, Reply, ToolUse } from './pieces.ts';

interface TurnOptions<Parsed> {
  pieces: Pick<LoopPieces<never, never, Parsed>, 'output' | 'settings' | 'toolExecution' | 'onToolError'>;
  model: LanguageModel;
  system: string | undefined;
  messages: ModelMessage[];
  tools: ToolSet | undefined;
  signal: AbortSignal;
}

interface Turn<Parsed> {
  reply: Reply<Parsed>;
  /** The reply and its tool results, as messages that continue the conversation. */
  messages: ModelMessage[];
  /** Number of tools that threw. */
  toolErrors: number;
  /** Whether the reply breaks `settings.toolChoice`. Its tools were not run, and it ends the conversation. */
  breaksToolChoice: boolean;
}

/**
 * Makes one model call and runs each tool call of the reply once.
 * @throws EnvironmentError: `tool_failed` for a tool that throws, with `onToolError: 'fail'`; `invalid_piece` for a tool
 * that needs approval.
 */
export async function takeTurn<Parsed>({
  pieces,
  model,
  system,
  messages,
  tools,
  signal,
}: TurnOptions<Parsed>): Promise<Turn<Parsed>> {
  const output = pieces.output && readLeniently(pieces.output);
  const answered = generateText({
    ...pieces.settings,
    model,
    messages,
    abortSignal: signal,
    ...(system ? { system } : {}),
    ...(tools ? { tools } : {}),
    ...(output ? { output: output.spec } : {}),
    ...(pieces.toolExecution === 'parallel' ? {} : { toolCallConcurrency: 1 }),
  });
  const result = await answered.catch(toViolation);
  if (result instanceof ToolChoiceViolationError) return violatingTurn(result);
  const { finalStep } = result;
  const { content, text, finishReason, response } = finalStep;
  const uses = new Map<string, ToolUse>();
  let toolErrors = 0;
  for (const call of finalStep.toolCalls)
    uses.set(call.toolCallId, { id: call.toolCallId, name: call.toolName, input: call.input });
  for (const part of content) {
    if (part.type !== 'tool-result' && part.type !== 'tool-error') continue;
    const use = uses.get(part.toolCallId);
    if (!use) continue;
    if (part.type === 'tool-result') use.output = part.output;
    else {
      use.error = part.error;
      const call = finalStep.toolCalls.find(({ toolCallId }) => toolCallId === part.toolCallId);
      if (call?.invalid) continue;
      toolErrors++;
      if (pieces.onToolError === 'fail')
        throw new EnvironmentError(
          'tool_failed',
          `The tool "${part.toolName}" threw: ${describeThrown(part.error)}`,
          { part: part.toolName, cause: part.error },
        );
    }
  }
  const toolCalls = [...uses.values()];
  if (finishReason === 'tool-calls' || finishReason === 'stop') refuseUnanswered(toolCalls);
  const parsed = toolCalls.length === 0 ? (output?.read() ?? null) : null;
  return {
    reply: { text, output: parsed, toolCalls, finishReason },
    messages: response.messages,
    toolErrors,
    breaksToolChoice: false,
  };
}

/** A reply that breaks the tool choice, for example a cut one, is the policy's mistake and does not fail the rollout. */
function toViolation(error: unknown): ToolChoiceViolationError {
  if (ToolChoiceViolationError.isInstance(error)) return error;
  throw error;
}

function violatingTurn({ content, finishReason }: ToolChoiceViolationError): Turn<never> {
  const text = content.map((part) => (part.type === 'text' ? part.text : '')).join('');
  const toolCalls = content.flatMap((part) =>
    part.type === 'tool-call' ? [{ id: part.toolCallId, name: part.toolName, input: part.input }] : [],
  );
  return {
    reply: { text, output: null, toolCalls, finishReason },
    messages: [{ role: 'assistant', content: text }],
    toolErrors: 0,
    breaksToolChoice: true,
  };
}

/** Whether the tool call was run. The calls of a reply that was cut are not. */
export function isAnswered(use: ToolUse): boolean {
  return 'output' in use || 'error' in use;
}

function refuseUnanswered(toolCalls: readonly ToolUse[]): void {
  const open = toolCalls.find((use) => !isAnswered(use));
  if (open)
    throw pieceError(
      'tools',
      `has "${open.name}", whose call was not run: it needs approval, and a rollout has nobody to approve it. Remove ` +
        '`needsApproval`.',
    );
}

/**
 * Makes an output specification accept any reply: a reply that does not fit is the policy's mistake and does not fail
 * the rollout. `read` returns the parsed output; null for a reply that does not fit.
 */
export function readLeniently<Parsed>(output: Output.Output<Parsed, unknown, unknown>): {
  spec: Output.Output<string, never, never>;
  read: () => Parsed | null;
} {
  let parsed: Parsed | null = null;
  const spec: Output.Output<string, never, never> = {
    name: output.name,
    responseFormat: output.responseFormat,
    parseCompleteOutput: async (reply, context) => {
      try {
        parsed = await output.parseCompleteOutput(reply, context);
      } catch (error) {
        if (!NoObjectGeneratedError.isInstance(error)) throw error;
      }
      return reply.text;
    },
    parsePartialOutput: async () => undefined,
    createElementStreamTransform: () => undefined,
  };
  return { spec, read: () => parsed };
}
