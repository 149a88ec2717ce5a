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

/** A model call, whichever protocol it came through. */
export interface ModelRequest {
  /** Every field but `messages`, `model`, `seed` and `stream`. */
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
  /** Names the call within its trajectory; undefined where it is not recorded. */
  callId: string | undefined;
}

export interface StreamedAnswer {
  callId: string | undefined;
  /** The reply as far as `chunks` have been read. */
  reply: {
    readonly toolCalls: readonly ToolCall[];
    /** @throws where the stream ended without a finish reason. */
    complete(): { choice: Choice; usage: Usage | undefined };
  };
  /** The call is recorded once they have been read to their end. */
  chunks: AsyncGenerator<ChatCompletionChunk, void, undefined>;
}

/** The model behind a key. The calls are recorded in the trajectory of the async scope that they are made in. */
export interface EndpointModel {
  /** The pinned name of the model. */
  readonly name: string;
  answer(request: ModelRequest): Promise<WholeAnswer>;
  /** Resolves once the service has accepted the call. */
  answerStreamed(request: ModelRequest): Promise<StreamedAnswer>;
}
