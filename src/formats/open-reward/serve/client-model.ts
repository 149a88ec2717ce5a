import { randomUUID } from 'node:crypto';
import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4GenerateResult,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4StreamResult,
} from '@ai-sdk/provider';
import { type ExternalModel, externalModel, type RolloutModel } from '../../../model/index.ts';
import { untilAborted } from '../../../util/deadline.ts';
import type { ToolList } from '../protocol.ts';
import { OpenRewardError } from '../server.ts';

/** What the client does: a reply in words, or a call of a tool. */
export type Action = { text: string } | { name: string; input: Readonly<Record<string, unknown>> };

/** The environment waits for a reply of its model. */
export interface Turn {
  /** The whole conversation. */
  prompt: LanguageModelV4Prompt;
  tools: ToolList['tools'];
  /** Gives the reply. False if the environment no longer waits for it, as after its time limit. */
  reply(action: Action): boolean;
}

const usage: LanguageModelV4GenerateResult['usage'] = {
  inputTokens: { total: undefined, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: undefined, text: undefined, reasoning: undefined },
};

/**
 * The model of an episode whose replies a client makes: each model call of the environment becomes a turn, and waits
 * for the client's next action.
 */
export class ClientModel implements RolloutModel {
  readonly name = 'client';
  readonly step = undefined;
  readonly languageModel: LanguageModelV4;
  /** What the environment has shown its model, with messages that a limit kept from being a turn. */
  shown: LanguageModelV4Prompt = [];
  readonly #external: ExternalModel;
  readonly #onTurn: (turn: Turn) => void;
  readonly #onMisuse: (error: OpenRewardError) => void;
  #isWaiting = false;

  /** `onMisuse` is called for model calls that no client could answer. */
  constructor(onTurn: (turn: Turn) => void, onMisuse: (error: OpenRewardError) => void) {
    this.#onTurn = onTurn;
    this.#onMisuse = onMisuse;
    this.#external = externalModel(this.#waiting());
    const { languageModel } = this.#external;
    this.languageModel = {
      ...described,
      doGenerate: async (options) => {
        this.#see(options.prompt);
        return languageModel.doGenerate(options);
      },
      doStream: (options) => languageModel.doStream(options),
    };
  }

  endpoint() {
    return this.#external.endpoint();
  }

  /** The messages that the environment has added since `before`, without replies. */
  static added(before: LanguageModelV4Prompt, now: LanguageModelV4Prompt): LanguageModelV4Message[] {
    return now.slice(before.length).filter(({ role }) => role !== 'assistant');
  }

  #see(prompt: LanguageModelV4Prompt): void {
    const isSame = (message: LanguageModelV4Message, at: number) => keyOf(message) === keyOf(prompt[at]);
    if (this.#isWaiting || prompt.length < this.shown.length || !this.shown.every(isSame))
      throw this.#misuse('calls its model from a tool, or twice at a time');
    this.shown = prompt;
  }

  #waiting(): LanguageModelV4 {
    return {
      ...described,
      doGenerate: async ({ prompt, tools, abortSignal }) => {
        const replied = Promise.withResolvers<LanguageModelV4GenerateResult>();
        this.#isWaiting = true;
        const reply = (action: Action) => {
          if (abortSignal?.aborted) return false;
          this.#isWaiting = false;
          replied.resolve(toResult(action));
          return true;
        };
        this.#onTurn({ prompt, tools: this.#listed(tools), reply });
        return untilAborted(replied.promise, abortSignal);
      },
      doStream: async (): Promise<LanguageModelV4StreamResult> => {
        throw this.#misuse('streams replies of its model');
      },
    };
  }

  #listed(tools: LanguageModelV4CallOptions['tools'] = []): ToolList['tools'] {
    return tools.map((tool) => {
      if (tool.type !== 'function') throw this.#misuse(`has "${tool.name}", a tool of a provider,`);
      const { name, description = '', inputSchema } = tool;
      return { name, description, input_schema: { ...inputSchema } };
    });
  }

  #misuse(what: string): OpenRewardError {
    const error = new OpenRewardError(
      'environment_not_servable',
      `the environment ${what}, which the model of a client cannot do`,
    );
    this.#onMisuse(error);
    return error;
  }
}

const described = {
  specificationVersion: 'v4',
  provider: 'open-reward',
  modelId: 'client',
  supportedUrls: {},
} as const;

function toResult(action: Action): LanguageModelV4GenerateResult {
  const isText = 'text' in action;
  const content: LanguageModelV4Content = isText
    ? { type: 'text', text: action.text }
    : {
        type: 'tool-call',
        toolCallId: `call_${randomUUID()}`,
        toolName: action.name,
        input: JSON.stringify(action.input),
      };
  return {
    content: [content],
    finishReason: { unified: isText ? 'stop' : 'tool-calls', raw: undefined },
    usage,
    warnings: [],
  };
}

/** Tells a message from others without reading its files. */
function keyOf(message: LanguageModelV4Message | undefined): string {
  if (!message || message.role === 'system') return JSON.stringify(message);
  const parts: readonly object[] = message.content;
  return JSON.stringify([
    message.role,
    parts.map((part) => ('text' in part ? part.text : 'toolCallId' in part ? part.toolCallId : null)),
  ]);
}
