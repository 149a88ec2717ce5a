import type { ModelMessage, ToolSet } from 'ai';
import type { RolloutModel } from '../../model/index.ts';
import { pieceError } from '../errors.ts';
import { toolErrorMetric } from '../metrics.ts';
import { describeThrown } from '../thrown.ts';
import { traceTools } from '../tools.ts';
import type { LoopOutcome, LoopPieces, PieceContext, TurnContext } from './pieces.ts';

/** The conversation so far. It remains when a limit interrupts the conversation. */
export type LoopProgress<Parsed> = Omit<LoopOutcome<Parsed>, 'stopReason'>;

/**
 * Runs the conversation to its end and returns its stop reason. `progress` always holds the conversation so far.
 * @throws EnvironmentError (`invalid_piece`, `tool_failed`), the TrajectoryError of a limit, and the errors of the pieces
 * and the model.
 */
export async function runLoop<Scenario, State, Parsed, Texts>(
  pieces: LoopPieces<Scenario, State, Parsed, Texts>,
  { model, ...context }: PieceContext<Scenario, State, Texts> & { model: RolloutModel },
  progress: LoopProgress<Parsed>,
): Promise<string> {
  // Loads the AI SDK, which programs without such a loop need not wait for.
  const { isAnswered, takeTurn } = await import('./take-turn.ts');
  const { trajectory, signal } = context;
  const tools = await prepareTools(
    typeof pieces.tools === 'function' ? await pieces.tools(context) : pieces.tools,
  );
  if (tools) trajectory.metrics[toolErrorMetric] = 0;
  const system = typeof pieces.system === 'function' ? await pieces.system(context) : pieces.system;
  progress.messages.push(...toMessages('prompt', await pieces.prompt(context)));

  for (;;) {
    const { messages } = progress;
    const options = { pieces, model: model.languageModel, system, messages: [...messages], tools, signal };
    const turn = await takeTurn(options);
    const { reply } = turn;
    // Tools may outlive the rollout: do not call the environment's functions after its end.
    signal.throwIfAborted();
    progress.turns++;
    progress.text = reply.text;
    progress.output = reply.output;
    messages.push(...turn.messages);
    if (turn.toolErrors > 0)
      trajectory.metrics[toolErrorMetric] =
        Number(trajectory.metrics[toolErrorMetric] ?? 0) + turn.toolErrors;
    // For example from a sub-agent in a tool: nothing after it could be trained on.
    if (trajectory.violation) throw trajectory.violation;

    const seen: TurnContext<Scenario, State, Parsed, Texts> = {
      ...context,
      reply,
      turn: progress.turns,
      messages,
    };
    const stopped = readStop(await pieces.stop?.(seen));
    if (stopped !== false) return stopped;
    const isCut = reply.finishReason === 'length';
    const cutReason = isCut && trajectory.remainingTokens === 0 ? 'token_limit' : reply.finishReason;
    if (turn.breaksToolChoice) return isCut ? cutReason : 'tool_choice';
    if (reply.toolCalls.length > 0) {
      if (!reply.toolCalls.every(isAnswered)) return cutReason;
      continue;
    }
    if (!pieces.observe) return isCut ? cutReason : 'finished';
    const observation = await pieces.observe(seen);
    if (observation === null) return 'finished';
    messages.push(...toMessages('observe', observation));
  }
}

function readStop(stopped: unknown): string | false {
  if (stopped === undefined || stopped === false) return false;
  if (typeof stopped === 'string' && stopped !== '') return stopped;
  throw pieceError(
    'stop',
    `returned ${describeThrown(stopped)}. Return a stop reason, or false to continue.`,
  );
}

function toMessages(piece: 'prompt' | 'observe', value: string | ModelMessage[]): ModelMessage[] {
  if (typeof value === 'string') return [{ role: 'user', content: value }];
  if (Array.isArray(value) && value.length > 0) return value;
  const found = Array.isArray(value) ? 'no message' : describeThrown(value);
  const remedy = piece === 'observe' ? 'Return text or messages, or null to end' : 'Return text or messages';
  throw pieceError(piece, `returned ${found}. ${remedy}.`);
}

function prepareTools(tools: ToolSet | undefined): ToolSet | undefined {
  if (tools === undefined || Object.keys(tools).length === 0) return undefined;
  for (const [name, { execute }] of Object.entries(tools))
    if (!execute)
      throw pieceError('tools', `has "${name}" without \`execute\`: its calls would have no result.`);
  return traceTools(tools);
}
