import type {
  LanguageModelV4Content,
  LanguageModelV4FinishReason,
  LanguageModelV4Prompt,
  LanguageModelV4StreamPart,
} from '@ai-sdk/provider';
import type { Choice, FinishReason, Message } from '../contract/index.ts';
import { type OtherText, toAssistantMessage, toPromptMessages } from './prompt-messages.ts';

/** A prompt for people and judges. Parts that are not text are replaced with their type in brackets. */
export function toReadableMessages(prompt: LanguageModelV4Prompt): Message[] {
  return toPromptMessages(prompt, bracketed).messages;
}

/** An external model's reply as a choice, without tokens, which only its own service knows. */
export function toExternalChoice(
  content: readonly LanguageModelV4Content[],
  reason: LanguageModelV4FinishReason,
): Choice {
  return {
    index: 0,
    message: toAssistantMessage(content, bracketed, String),
    finish_reason: finishReasons[reason.unified] ?? 'stop',
  };
}

const finishReasons: Partial<Record<LanguageModelV4FinishReason['unified'], FinishReason>> = {
  length: 'length',
  'content-filter': 'content_filter',
  'tool-calls': 'tool_calls',
};

/** Omits sources, because agent libraries do not send them back. */
const bracketed: OtherText = ({ type, mediaType, toolName }) =>
  type === 'source' ? '' : `[${[type, mediaType ?? toolName].filter(Boolean).join(' ')}]`;

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
