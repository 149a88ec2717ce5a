import type {
  LanguageModelV4Content,
  LanguageModelV4FinishReason,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4StreamPart,
} from '@ai-sdk/provider';
import type { Choice, FinishReason, Message, ToolCall } from '../contract/index.ts';
import { toPromptMessages } from './prompt-messages.ts';

/** A prompt for people and judges. Parts that are not text are replaced with their type in brackets. */
export function toReadableMessages(prompt: LanguageModelV4Prompt): Message[] {
  return toPromptMessages(prompt.map(readable)).messages;
}

/** An external model's reply as a choice, without tokens, which only its own service knows. */
export function toSpokenChoice(
  content: readonly LanguageModelV4Content[],
  reason: LanguageModelV4FinishReason,
): Choice {
  let text = '';
  let reasoning = '';
  const toolCalls: ToolCall[] = [];
  for (const part of content) {
    if (part.type === 'text') text += part.text;
    else if (part.type === 'reasoning') reasoning += part.text;
    else if (part.type === 'tool-call' && !part.providerExecuted) {
      const { toolCallId: id, toolName: name, input } = part;
      toolCalls.push({ id, type: 'function', function: { name, arguments: input } });
    } else text += named(part);
  }
  return {
    index: 0,
    message: {
      role: 'assistant',
      content: text === '' && toolCalls.length > 0 ? null : text,
      ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
      ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}),
    },
    finish_reason: finishReasons[reason.unified] ?? 'stop',
  };
}

const finishReasons: Partial<Record<LanguageModelV4FinishReason['unified'], FinishReason>> = {
  length: 'length',
  'content-filter': 'content_filter',
  'tool-calls': 'tool_calls',
};

function readable(message: LanguageModelV4Message): LanguageModelV4Message {
  if (message.role === 'user')
    return {
      ...message,
      content: message.content.map((part) => (part.type === 'text' ? part : asText(part))),
    };
  if (message.role === 'assistant')
    return {
      ...message,
      content: message.content.map((part) =>
        part.type === 'text' ||
        part.type === 'reasoning' ||
        (part.type === 'tool-call' && !part.providerExecuted)
          ? part
          : asText(part),
      ),
    };
  if (message.role === 'system') return message;
  return {
    ...message,
    content: message.content.map((part) =>
      part.type === 'tool-result' && part.output.type === 'content'
        ? {
            ...part,
            output: {
              ...part.output,
              value: part.output.value.map((piece) => (piece.type === 'text' ? piece : asText(piece))),
            },
          }
        : part,
    ),
  };
}

interface Part {
  type: string;
  mediaType?: string;
  toolName?: string;
}

const asText = (part: Part) => ({ type: 'text' as const, text: named(part) });

/** Omits sources, because agent libraries do not send them back. */
function named({ type, mediaType, toolName }: Part): string {
  return type === 'source' ? '' : `[${[type, mediaType ?? toolName].filter(Boolean).join(' ')}]`;
}

/** Assembles the parts of a stream into the content of an unstreamed reply. */
export class StreamedContent {
  readonly content: LanguageModelV4Content[] = [];
  readonly #open = new Map<string, { type: 'text' | 'reasoning'; text: string }>();

  add(part: LanguageModelV4StreamPart): void {
    switch (part.type) {
      case 'text-start':
      case 'reasoning-start': {
        const block = {
          type: part.type === 'text-start' ? ('text' as const) : ('reasoning' as const),
          text: '',
        };
        this.#open.set(part.id, block);
        this.content.push(block);
        break;
      }
      case 'text-delta':
      case 'reasoning-delta': {
        const block = this.#open.get(part.id);
        if (block) block.text += part.delta;
        break;
      }
      case 'tool-call':
      case 'tool-result':
      case 'file':
      case 'reasoning-file':
      case 'custom':
        this.content.push(part);
        break;
    }
  }
}
