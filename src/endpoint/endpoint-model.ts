import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionRequest,
  Choice,
  Tool,
  ToolCall,
  Usage,
} from '../contract/index.ts';
import type { PromptMessages } from '../trajectory/index.ts';

/** A model call, independent of its protocol. */
export interface ModelRequest {
  /** All fields except `messages`, `model`, `seed` and `stream`. */
  settings: Omit<ChatCompletionRequest, 'messages' | 'model' | 'seed' | 'stream'>;
  tools: Tool[] | undefined;
  prompt: PromptMessages;
  /** Default: the rollout's seed for the call. */
  seed: number | undefined;
  signal: AbortSignal | undefined;
}

export interface WholeAnswer {
  completion: ChatCompletion;
  choice: Choice;
  /** Identifies the call in its trajectory; undefined if it is not recorded. */
  callId: string | undefined;
}

export interface StreamedAnswer {
  callId: string | undefined;
  /** The reply assembled from the chunks read so far. */
  reply: {
    readonly toolCalls: readonly ToolCall[];
    /** @throws if the stream ended without a finish reason. */
    complete(): { choice: Choice; usage: Usage | undefined };
  };
  /** The call is recorded when the chunks end. */
  chunks: AsyncGenerator<ChatCompletionChunk, void, undefined>;
}

/** The model of a key. Its calls are recorded in the trajectory of their async scope. */
export interface EndpointModel {
  /** Pinned name of the model. */
  readonly name: string;
  answer(request: ModelRequest): Promise<WholeAnswer>;
  /** Resolves when the service has accepted the call. */
  answerStreamed(request: ModelRequest): Promise<StreamedAnswer>;
}
