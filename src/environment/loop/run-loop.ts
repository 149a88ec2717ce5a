import type { ModelMessage, ToolSet } from 'ai';
import { pieceError } from '../errors.ts';
import { toolErrorMetric } from '../metrics.ts';
import type { RolloutContext } from '../options.ts';
import { describeThrown } from '../thrown.ts';
import { traceTools } from '../tools.ts';
import type { LoopOutcome, LoopPieces, Reply, TurnContext } from './pieces.ts';
import { isAnswered, takeTurn } from './take-turn.ts';

/** The conversation so far. It remains when a limit interrupts the conversation. */
export class LoopProgress<Parsed> {
  readonly messages: ModelMessage[] = [];
  #turns = 0;
  #text = '';
  #output: Parsed | null = null;

  get turns(): number {
    return this.#turns;
  }

  addReply({ text, output }: Reply<Parsed>, messages: readonly ModelMessage[]): void {
    this.#turns++;
    this.#text = text;
    this.#output = output;
    this.messages.push(...messages);
  }

  toOutcome(stopReason: string): LoopOutcome<Parsed> {
    return {
      text: this.#text,
      output: this.#output,
      messages: [...this.messages],
      turns: this.#turns,
      stopReason,
    };
  }
}

/**
 * Runs the conversation to its end and returns its stop reason. `progress` always holds the conversation so far.
 * @throws EnvironmentError (`invalid_piece`, `tool_failed`), the TrajectoryError of a limit, and the errors of the pieces
 * and the model.
 */
export async function runLoop<Scenario, State, Parsed>(
  pieces: LoopPieces<Scenario, State, Parsed>,
  { model, ...context }: RolloutContext<Scenario, State>,
  progress: LoopProgress<Parsed>,
): Promise<string> {
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
    progress.addReply(reply, turn.messages);
    if (turn.toolErrors > 0)
      trajectory.metrics[toolErrorMetric] =
        Number(trajectory.metrics[toolErrorMetric] ?? 0) + turn.toolErrors;
    // For example from a sub-agent in a tool: nothing after it could be trained on.
    if (trajectory.violation) throw trajectory.violation;

    const seen: TurnContext<Scenario, State, Parsed> = { ...context, reply, turn: progress.turns, messages };
    const stopped = readStop(await pieces.stop?.(seen));
    if (stopped !== false) return stopped;
    if (turn.breaksToolChoice)
      return reply.finishReason === 'length' ? cutReason(reply, trajectory.remainingTokens) : 'tool_choice';
    if (reply.toolCalls.length > 0) {
      if (!isAnswered(reply)) return cutReason(reply, trajectory.remainingTokens);
      continue;
    }
    if (!pieces.observe)
      return reply.finishReason === 'length' ? cutReason(reply, trajectory.remainingTokens) : 'finished';
    const observation = await pieces.observe(seen);
    if (observation === null) return 'finished';
    messages.push(...toMessages('observe', observation));
  }
}

function cutReason(
  { finishReason }: Pick<Reply, 'finishReason'>,
  remainingTokens: number | undefined,
): string {
  return finishReason === 'length' && remainingTokens === 0 ? 'token_limit' : finishReason;
}

function readStop(said: unknown): string | false {
  if (said === undefined || said === false) return false;
  if (typeof said === 'string' && said !== '') return said;
  throw pieceError('stop', `gave ${describeThrown(said)}; give the reason to end, or false to go on.`);
}

function toMessages(piece: 'prompt' | 'observe', given: string | ModelMessage[]): ModelMessage[] {
  if (typeof given === 'string') return [{ role: 'user', content: given }];
  if (Array.isArray(given) && given.length > 0) return given;
  const remedy = piece === 'observe' ? 'give text or messages, or null to end' : 'give text or messages';
  throw pieceError(piece, `gave ${Array.isArray(given) ? 'no message' : describeThrown(given)}; ${remedy}.`);
}

function prepareTools(tools: ToolSet | undefined): ToolSet | undefined {
  if (tools === undefined || Object.keys(tools).length === 0) return undefined;
  for (const [name, { execute }] of Object.entries(tools))
    if (!execute)
      throw pieceError('tools', `has "${name}" without \`execute\`: nothing could answer its calls.`);
  return traceTools(tools);
}
