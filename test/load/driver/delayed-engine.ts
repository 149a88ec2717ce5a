import type { GenerateRequest, Generation } from '../../../src/engines/engine.ts';
import { ScriptedEngine, special, tokensOf } from '../../support/scripted-engine.ts';

export interface Delay {
  delayMs: number;
  /** Replies in parallel; further requests wait in order of arrival. */
  places: number;
  /** Tokens per reply. */
  tokens: number;
}

/** An engine whose replies take time but no computation, and which does not record its requests. */
export class DelayedEngine extends ScriptedEngine {
  readonly #delay: Delay;
  readonly #waiting: (() => void)[] = [];
  #taken = 0;

  constructor(delay: Delay) {
    super();
    this.#delay = delay;
  }

  override async generate(request: GenerateRequest): Promise<Generation> {
    const { delayMs, tokens: count } = this.#delay;
    await this.#enter();
    try {
      await new Promise((resolve) => setTimeout(resolve, delayMs));
    } finally {
      this.#taken--;
      this.#waiting.shift()?.();
    }
    const tokens = [...tokensOf('x'.repeat(Math.min(count, request.maxTokens) - 1)), special.end];
    return {
      tokens,
      logprobs: tokens.map(() => -0.5),
      topLogprobs: tokens.map(() => []),
      finishReason: 'stop',
      stop: null,
      cachedTokens: 0,
    };
  }

  async #enter(): Promise<void> {
    if (this.#taken >= this.#delay.places) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#taken++;
  }
}
