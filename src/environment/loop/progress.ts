import type { ModelMessage } from 'ai';
import type { LoopOutcome } from './outcome.ts';
import type { Reply } from './pieces.ts';

/** How far a conversation has come: also what is left of one that a limit interrupts. */
export class LoopProgress<Parsed> {
  readonly messages: ModelMessage[] = [];
  #turns = 0;
  #text = '';
  #output: Parsed | null = null;

  get turns(): number {
    return this.#turns;
  }

  addReply({ text, output }: Reply<Parsed>, messages: readonly ModelMessage[]): void {
    this.#turns++;
    this.#text = text;
    this.#output = output;
    this.messages.push(...messages);
  }

  toOutcome(stopReason: string): LoopOutcome<Parsed> {
    return {
      text: this.#text,
      output: this.#output,
      messages: [...this.messages],
      turns: this.#turns,
      stopReason,
    };
  }
}
