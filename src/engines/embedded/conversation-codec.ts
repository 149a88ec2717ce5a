import type { Reply } from '../../language/constraint/constraint.ts';
import { GrammarCompiler } from '../../language/grammar/compiler.ts';
import { encodeReply } from '../../language/grammar/encode-reply.ts';
import { chatFormat, loadTokenizer } from '../../language/tokenizer/embedded.ts';
import type { SamplingParameters } from '../engine.ts';
import {
  type LogitsProcessorFactories,
  loadProcessors,
  type ProcessorModules,
} from './extensions/logits-processors.ts';
import { ReplySampling } from './sampling/reply-sampling.ts';

/** Everything about text that sampling and training share: the tokenizer, the chat format and compiled constraints. */
export class ConversationCodec {
  readonly tokenizer = loadTokenizer();
  readonly format = chatFormat(this.tokenizer);
  readonly compiler = new GrammarCompiler(this.tokenizer, this.format);
  /** The tokens a reply without a constraint may contain: all text tokens and the end tokens. Ascending. */
  readonly unconstrained: Int32Array;
  readonly #processors: LogitsProcessorFactories;
  /** The bytes of each token, as text with one character for each byte. */
  readonly #bytes: readonly string[];

  /** `processors`: the logits processors that replies may use. Default: none. */
  constructor(processors: LogitsProcessorFactories = new Map()) {
    this.#processors = processors;
    const { tokenizer, format } = this;
    const special = new Set(tokenizer.special.values());
    for (const end of [format.endToken, ...format.otherEndTokens]) special.delete(end);
    const ids = Array.from({ length: tokenizer.vocabularySize }, (_, id) => id);
    this.unconstrained = Int32Array.from(ids.filter((id) => !special.has(id)));
    this.#bytes = ids.map((id) => Buffer.from(tokenizer.bytes(id)).toString('latin1'));
  }

  static async load(processors: ProcessorModules): Promise<ConversationCodec> {
    return new ConversationCodec(await loadProcessors(processors));
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
