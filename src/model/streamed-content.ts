import type { LanguageModelV4Content, LanguageModelV4StreamPart } from '@ai-sdk/provider';

/** Puts the parts of a stream together into the content that an unstreamed reply would have had. */
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
