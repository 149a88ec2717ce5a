import type { FinishReason, LanguageModelCallOptions, ModelMessage, Output, ToolChoice, ToolSet } from 'ai';
import type { Trajectory } from '../../trajectory/index.ts';

/** What came of a conversation that was led for an environment of pieces. */
export interface LoopOutcome<Parsed = never> {
  /** Text of the last reply; empty where there was none. */
  text: string;
  /** What `output` read from the last reply; null without `output`, and where the reply does not follow it. */
  output: Parsed | null;
  /** The conversation: prompt, replies, results of tools, observations. */
  messages: ModelMessage[];
  /** Number of replies. */
  turns: number;
  /**
   * Why it ended: `finished` (the reply called no tool and there was nothing more to observe), `length` (the reply was
   * cut), `tool_choice` (the reply breaks `settings.toolChoice`), another finish reason of a reply whose tools were not
   * run, a limit, or what `stop` said.
   */
  stopReason: string;
}

/** What is known before the first reply. */
export interface PieceContext<Scenario, State> {
  scenario: Scenario;
  /** What `setup` gave for this rollout; undefined where there is none. */
  state: State;
  trajectory: Trajectory;
  signal: AbortSignal;
  /** Unsigned 32-bit integer: the seed of whatever this rollout draws at random. */
  seed: number;
}

/** One reply of the model, with what its tools answered. */
export interface Reply<Parsed = never> {
  text: string;
  /** What `output` read from it; null without `output`, for calls of tools, and where the reply does not follow it. */
  output: Parsed | null;
  toolCalls: readonly ToolUse[];
  finishReason: FinishReason;
}

/** A tool call of the model and what came of it; neither `output` nor `error` where it was not run. */
export interface ToolUse {
  id: string;
  name: string;
  /** As the tool's schema reads it; as the model wrote it where it does not fit. */
  input: unknown;
  output?: unknown;
  /** What the tool threw, or why the call could not be run. */
  error?: unknown;
}

export interface TurnContext<Scenario, State, Parsed = never> extends PieceContext<Scenario, State> {
  /** The newest reply. */
  reply: Reply<Parsed>;
  /** Its number, from 1. */
  turn: number;
  /** The conversation so far, the reply with it. */
  messages: readonly ModelMessage[];
}

/** Settings of each model call. What the model handle is given wins. */
export interface LoopSettings extends Omit<LanguageModelCallOptions, 'seed'> {
  toolChoice?: ToolChoice<ToolSet>;
  /** Such as `{ martingale: { parallel_tool_calls: false } }`. */
  providerOptions?: Record<string, Record<string, JsonValue>>;
}

type JsonValue = string | number | boolean | null | JsonValue[] | { [name: string]: JsonValue | undefined };

/** The pieces of a conversation, which is led as long as the model calls tools or `observe` has something to say. */
export interface LoopPieces<Scenario, State, Parsed> {
  /** Instructions before the conversation. */
  system?: string | ((context: PieceContext<Scenario, State>) => string | PromiseLike<string>);
  /** How the conversation begins; text is one message of the user. */
  prompt: (
    context: PieceContext<Scenario, State>,
  ) => string | ModelMessage[] | PromiseLike<string | ModelMessage[]>;
  /** Tools of the AI SDK, each with `execute`. A function makes them for each rollout, around its `state`. */
  tools?: ToolSet | ((context: PieceContext<Scenario, State>) => ToolSet | PromiseLike<ToolSet>);
  /** The tool calls of one reply run one after the other in their order (`in_order`, the default), or at once. */
  toolExecution?: 'in_order' | 'parallel';
  /**
   * A tool that throws: the model reads the error's message as the result (`tell_model`, the default), or the rollout
   * is failed (`fail`). Calls of unknown tools, and inputs that do not fit, are always told to the model.
   */
  onToolError?: 'tell_model' | 'fail';
  /** How replies without tool calls are read, such as `Output.object({ schema })`. Default: as text. */
  output?: Output.Output<Parsed, unknown, unknown>;
  settings?: LoopSettings;
  /**
   * What comes back for a reply without tool calls: text or messages that the conversation goes on with, or null to
   * end it. Also called for the last reply that a limit allows. Default: such a reply ends the conversation.
   */
  observe?: (
    context: TurnContext<Scenario, State, Parsed>,
  ) => string | ModelMessage[] | null | PromiseLike<string | ModelMessage[] | null>;
  /** Called after each reply and its tools, before `observe`: a stop reason of your own ends the conversation, false goes on. */
  stop?: (context: TurnContext<Scenario, State, Parsed>) => string | false | PromiseLike<string | false>;
}
