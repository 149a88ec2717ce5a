import { encodeReply, GrammarCompiler } from '../../language/grammars.ts';
import {
  type ChatFormat,
  type Language,
  openLanguage,
  type Reply,
  replyTokens,
  type SharedLanguage,
  type Tokenizer,
} from '../../language/index.ts';
import { getOrInsert } from '../../util/get-or-insert.ts';
import type { SamplingParameters } from '../engine.ts';
import type { BaseModels } from './base-models.ts';
import {
  type LogitsProcessorFactories,
  loadProcessors,
  type ProcessorModules,
} from './extensions/logits-processors.ts';
import { ReplySampling } from './sampling/reply-sampling.ts';

/** Everything about text that sampling and training share: the tokenizer, the chat format and compiled constraints. */
export class ConversationCodec {
  readonly tokenizer: Tokenizer;
  readonly format: ChatFormat;
  /** The tokens a reply without a constraint may contain: all text tokens and `replyTokens`. Ascending. */
  readonly unconstrained: Int32Array;
  readonly #processors: LogitsProcessorFactories;
  /** The bytes of each token, as text with one character for each byte. */
  readonly #bytes: readonly string[];
  #compiler: GrammarCompiler | undefined;

  /** `processors`: the logits processors that replies may use. */
  constructor(processors: LogitsProcessorFactories, { tokenizer, format }: Language) {
    this.tokenizer = tokenizer;
    this.format = format;
    this.#processors = processors;
    const special = new Set(tokenizer.special.values());
    for (const token of replyTokens(format)) special.delete(token);
    const ids = Array.from({ length: tokenizer.vocabularySize }, (_, id) => id);
    this.unconstrained = Int32Array.from(ids.filter((id) => !special.has(id)));
    this.#bytes = ids.map((id) => Buffer.from(tokenizer.bytes(id)).toString('latin1'));
  }

  /** Created when first needed: it sorts the whole vocabulary. */
  get compiler(): GrammarCompiler {
    this.#compiler ??= new GrammarCompiler(this.tokenizer, this.format);
    return this.#compiler;
  }

  /** Prepares the sampling of one reply. Throws an `EngineError` that names an invalid parameter. */
  prepareSampling(parameters: SamplingParameters): ReplySampling {
    const text = { endToken: this.format.endToken, unconstrained: this.unconstrained, bytes: this.#bytes };
    return new ReplySampling(parameters, text, this.#processors);
  }

  async encodeReply(reply: Reply): Promise<number[]> {
    const compiled = reply.constraint && (await this.compiler.compile(reply.constraint));
    return encodeReply(reply, compiled, this.tokenizer, this.format);
  }
}

/** The codecs of a thread's base models, one for each language, created when it is first needed. */
export class ConversationCodecs {
  readonly #models: BaseModels;
  readonly #processors: LogitsProcessorFactories;
  readonly #codecs = new Map<SharedLanguage, ConversationCodec>();

  private constructor(models: BaseModels, processors: LogitsProcessorFactories) {
    this.#models = models;
    this.#processors = processors;
  }

  static async load(models: BaseModels, processors: ProcessorModules): Promise<ConversationCodecs> {
    return new ConversationCodecs(models, await loadProcessors(processors));
  }

  of(baseModel: string): ConversationCodec {
    const { language } = this.#models.find(baseModel);
    const open = () => new ConversationCodec(this.#processors, openLanguage(language));
    return getOrInsert(this.#codecs, language, open);
  }
}
