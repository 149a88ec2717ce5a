import type { FinishReason, LanguageModelCallOptions, ModelMessage, Output, ToolChoice, ToolSet } from 'ai';
import type { Trajectory } from '../../trajectory/index.ts';
import type { NoTexts } from '../texts.ts';

/** The outcome of a conversation of an environment of pieces. */
export interface LoopOutcome<Parsed = never> {
  /** Text of the last reply; empty without a reply. */
  text: string;
  /** What `output` parsed from the last reply; null without `output` and for a reply that does not fit it. */
  output: Parsed | null;
  /** The conversation: prompt, replies, results of tools, observations. */
  messages: ModelMessage[];
  /** Number of replies. */
  turns: number;
  /**
   * Why it ended: `finished` (the reply called no tool and there was nothing more to observe), `length` (the reply was
   * cut), `tool_choice` (the reply breaks `settings.toolChoice`), another finish reason of a reply whose tools were not
   * run, a limit, or the text that `stop` returned.
   */
  stopReason: string;
}

/** What a piece knows before the first reply. */
export interface PieceContext<Scenario, State, Texts = NoTexts> {
  scenario: Scenario;
  /** The environment's texts by name; without the option `texts`, none. */
  texts: Texts;
  /** The result of `setup` for this rollout; undefined without `setup`. */
  state: State;
  trajectory: Trajectory;
  signal: AbortSignal;
  /** Seed for random choices in this rollout: an unsigned 32-bit integer. */
  seed: number;
}

/** One reply of the model with the results of its tool calls. */
export interface Reply<Parsed = never> {
  text: string;
  /** What `output` parsed from it; null without `output`, with tool calls, and for a reply that does not fit it. */
  output: Parsed | null;
  toolCalls: readonly ToolUse[];
  finishReason: FinishReason;
}

/** A tool call of the model with its result. A call that was not run has neither `output` nor `error`. */
export interface ToolUse {
  id: string;
  name: string;
  /** Parsed by the tool's schema; as the model wrote it if it does not fit the schema. */
  input: unknown;
  output?: unknown;
  /** What the tool threw, or why the call could not be run. */
  error?: unknown;
}

export interface TurnContext<Scenario, State, Parsed = never, Texts = NoTexts>
  extends PieceContext<Scenario, State, Texts> {
  /** The last reply. */
  reply: Reply<Parsed>;
  /** Number of that reply, from 1. */
  turn: number;
  /** The conversation so far, with the last reply and its tool results. */
  messages: readonly ModelMessage[];
}

/** Settings of each model call. Settings of the model handle take precedence. */
export interface LoopSettings extends Omit<LanguageModelCallOptions, 'seed'> {
  toolChoice?: ToolChoice<ToolSet>;
  /** Options for the model's provider, such as `{ martingale: { parallel_tool_calls: false } }`. */
  providerOptions?: Record<string, Record<string, JsonValue>>;
}

type JsonValue = string | number | boolean | null | JsonValue[] | { [name: string]: JsonValue | undefined };

/** The pieces of a conversation. It continues while the model calls tools or `observe` returns an observation. */
export interface LoopPieces<Scenario, State, Parsed, Texts = NoTexts> {
  /** Instructions before the conversation. */
  system?: string | ((context: PieceContext<Scenario, State, Texts>) => string | PromiseLike<string>);
  /** The first messages of the conversation. A text is one message of the user. */
  prompt: (
    context: PieceContext<Scenario, State, Texts>,
  ) => string | ModelMessage[] | PromiseLike<string | ModelMessage[]>;
  /** Tools of the AI SDK, each with `execute`. A function makes the tools of each rollout, with its `state`. */
  tools?: ToolSet | ((context: PieceContext<Scenario, State, Texts>) => ToolSet | PromiseLike<ToolSet>);
  /** Tool calls of one reply run one after the other (`in_order`, the default) or at the same time (`parallel`). */
  toolExecution?: 'in_order' | 'parallel';
  /**
   * What happens when a tool throws: the model reads the error's message as the result (`tell_model`, the default), or
   * the rollout fails (`fail`). The model always reads errors about unknown tools and inputs that do not fit.
   */
  onToolError?: 'tell_model' | 'fail';
  /** How replies without tool calls are parsed, such as `Output.object({ schema })`. Default: as text. */
  output?: Output.Output<Parsed, unknown, unknown>;
  settings?: LoopSettings;
  /**
   * Responds to a reply without tool calls: a text or messages continue the conversation, null ends it. It is also
   * called for the last reply that a limit allows. Default: a reply without tool calls ends the conversation.
   */
  observe?: (
    context: TurnContext<Scenario, State, Parsed, Texts>,
  ) => string | ModelMessage[] | null | PromiseLike<string | ModelMessage[] | null>;
  /** Runs after each reply and its tools, before `observe`. A text ends the conversation and is its stop reason. */
  stop?: (
    context: TurnContext<Scenario, State, Parsed, Texts>,
  ) => string | false | PromiseLike<string | false>;
}
