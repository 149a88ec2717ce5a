import type { ModelMessage } from 'ai';

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
