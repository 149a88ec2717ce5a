import type { LanguageModelV4StreamPart, SharedV4ProviderMetadata } from '@ai-sdk/provider';

type Kind = 'text' | 'reasoning';

/** Runs of text and of reasoning as AI SDK stream parts: one is open at a time, and ends before anything else begins. */
export class TextBlocks {
  readonly #stamp: { providerMetadata?: SharedV4ProviderMetadata };
  #open: { kind: Kind; id: string } | undefined;
  #begun = 0;

  constructor(stamp: SharedV4ProviderMetadata | undefined) {
    this.#stamp = stamp ? { providerMetadata: stamp } : {};
  }

  get isEmpty(): boolean {
    return this.#begun === 0;
  }

  *write(kind: Kind, delta: string): Generator<LanguageModelV4StreamPart> {
    if (this.#open?.kind !== kind) yield* this.begin(kind);
    if (this.#open) yield { type: `${kind}-delta` as const, id: this.#open.id, delta };
  }

  *begin(kind: Kind): Generator<LanguageModelV4StreamPart> {
    yield* this.end();
    this.#open = { kind, id: `${kind}-${this.#begun++}` };
    yield { type: `${kind}-start` as const, id: this.#open.id, ...this.#stamp };
  }

  *end(): Generator<LanguageModelV4StreamPart> {
    if (!this.#open) return;
    const { kind, id } = this.#open;
    this.#open = undefined;
    yield { type: `${kind}-end` as const, id };
  }
}
