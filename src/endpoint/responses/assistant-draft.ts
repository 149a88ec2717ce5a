import type { Message, ToolCall } from '../../contract/index.ts';

type AssistantMessage = Extract<Message, { role: 'assistant' }>;

/** An assistant message being put together from the items of a reply. */
export class AssistantDraft {
  text = '';
  reasoning = '';
  readonly calls: ToolCall[] = [];
  #callId: string | undefined;
  #isOfOne = true;

  constructor(callId: string | undefined) {
    this.#callId = callId;
  }

  /** The call that every item so far is known to be of. */
  get callId(): string | undefined {
    return this.#isOfOne ? this.#callId : undefined;
  }

  /** Whether a part goes into this message; else a new reply begins with it. */
  takes(part: 'reasoning' | 'text' | 'call', callId: string | undefined): boolean {
    if (callId !== undefined && this.#callId !== undefined) return callId === this.#callId;
    if (part === 'call') return true;
    return this.calls.length === 0 && this.text === '';
  }

  meet(callId: string | undefined): void {
    if (callId !== this.#callId) this.#isOfOne = false;
  }

  toMessage(): AssistantMessage {
    return {
      role: 'assistant',
      content: this.text === '' && this.calls.length > 0 ? null : this.text,
      ...(this.reasoning === '' ? {} : { reasoning_content: this.reasoning }),
      ...(this.calls.length > 0 ? { tool_calls: this.calls } : {}),
    };
  }
}
