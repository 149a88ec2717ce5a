import type { Choice, Message, Tool } from '../contract/index.ts';

/** One answered model call, as it went over the wire. */
export interface RecordedCall {
  /** Place among the trajectory's calls, in the order in which they began. */
  index: number;
  /** The messages that were sent. */
  messages: readonly Message[];
  tools: Tool[] | undefined;
  choice: Choice;
  /** Ids of the whole prompt, as the service rendered it. */
  promptTokenIds: readonly number[];
  /** The name of what answered, as the response gave it. */
  model: string;
  /** An external model's call, whose tokens are not known: its history has a message in the choice's place. */
  spoken?: { reply: Message; sampledTokens: number };
}

/** A prompt as chat messages. `callIds[i]` is the call that sampled `messages[i]`, where the agent's library says so. */
export interface PromptMessages {
  messages: Message[];
  callIds: (string | undefined)[];
  /** The agent's protocol may lose a reply's reasoning, so that its absence is no edit. Default false. */
  mayDropReasoning?: boolean;
}

/** A recorded call as rewards see it. */
export interface TrajectoryCall {
  readonly index: number;
  readonly messages: readonly Message[];
  readonly choice: Choice;
  /** Sum of the step rewards given to it; 0 where none was. */
  readonly reward: number;
}
