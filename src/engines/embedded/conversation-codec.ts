import type { Constraint, Reply } from '../../language/constraint/constraint.ts';
import {
  type CompiledConstraint,
  type ConstraintPlan,
  GrammarCompiler,
} from '../../language/grammar/compiler.ts';
import { encodeReply } from '../../language/grammar/encode-reply.ts';
import { chatFormat, loadTokenizer } from '../../language/tokenizer/embedded.ts';
import type { ChatFormat, Tokenizer } from '../../language/tokenizer/tokenizer.ts';
import type { SamplingParameters } from '../engine.ts';
import type { LogitsProcessorFactories } from './extensions/logits-processors.ts';
import { ReplySampling } from './sampling/reply-sampling.ts';

/** Everything about text that sampling and training share: the tokenizer, the chat format and compiled constraints. */
export class ConversationCodec {
  readonly tokenizer: Tokenizer;
  readonly format: ChatFormat;
  /** The tokens a reply without a constraint may contain: all text tokens and the end token. Ascending. */
  readonly unconstrained: Int32Array;
  readonly #compiler: GrammarCompiler;
  readonly #processors: LogitsProcessorFactories;
  /** The bytes of each token, as text with one character for each byte. */
  readonly #bytes: readonly string[];

  private constructor(
    tokenizer: Tokenizer,
    format: ChatFormat,
    compiler: GrammarCompiler,
    processors: LogitsProcessorFactories,
  ) {
    this.tokenizer = tokenizer;
    this.format = format;
    this.#compiler = compiler;
    this.#processors = processors;
    const special = new Set(tokenizer.special.values());
    const ids = Array.from({ length: tokenizer.vocabularySize }, (_, id) => id);
    this.unconstrained = Int32Array.from(ids.filter((id) => id === format.endToken || !special.has(id)));
    this.#bytes = ids.map((id) => Buffer.from(tokenizer.bytes(id)).toString('latin1'));
  }

  /** `processors`: the logits processors that replies may use. Default: none. */
  static async create(processors: LogitsProcessorFactories = new Map()): Promise<ConversationCodec> {
    const tokenizer = loadTokenizer();
    const format = chatFormat(tokenizer);
    return new ConversationCodec(tokenizer, format, new GrammarCompiler(tokenizer, format), processors);
  }

  /** Prepares the sampling of one reply. Throws an `EngineError` that names an invalid parameter. */
  prepareSampling(parameters: SamplingParameters): ReplySampling {
    const { unconstrained, format } = this;
    const text = { endToken: format.endToken, unconstrained, bytes: this.#bytes };
    return new ReplySampling(parameters, text, this.#processors);
  }

  compile(constraint: Constraint): Promise<CompiledConstraint> {
    return this.#compiler.compile(constraint);
  }

  /** A compiled constraint in a form that can be sent to another thread, where `assemble` turns it back at once. */
  plan(constraint: Constraint): ConstraintPlan {
    return this.#compiler.plan(constraint);
  }

  assemble(plan: ConstraintPlan): CompiledConstraint {
    return this.#compiler.assemble(plan);
  }

  async encodeReply(reply: Reply): Promise<number[]> {
    const compiled = reply.constraint && (await this.compile(reply.constraint));
    return encodeReply(reply, compiled, this.tokenizer, this.format);
  }
}
