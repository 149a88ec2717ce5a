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

/** What sampling and training need to know of text: tokens, the tokens of a conversation, and grammars. */
export class ConversationCodec {
  readonly tokenizer: Tokenizer;
  readonly format: ChatFormat;
  /** The tokens a reply may hold where no constraint says otherwise: all text, and the end. Ascending. */
  readonly unconstrained: Int32Array;
  readonly #compiler: GrammarCompiler;
  readonly #processors: LogitsProcessorFactories;
  /** The bytes of each token, one character each. */
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

  /** `processors`: the logits processors that replies may be sampled with. Default: none. */
  static async create(processors: LogitsProcessorFactories = new Map()): Promise<ConversationCodec> {
    const tokenizer = loadTokenizer();
    const format = chatFormat(tokenizer);
    return new ConversationCodec(tokenizer, format, new GrammarCompiler(tokenizer, format), processors);
  }

  /** Makes sampling parameters ready for one reply. Throws an `EngineError` that names what cannot be meant. */
  prepareSampling(parameters: SamplingParameters): ReplySampling {
    const { unconstrained, format } = this;
    const text = { endToken: format.endToken, unconstrained, bytes: this.#bytes };
    return new ReplySampling(parameters, text, this.#processors);
  }

  compile(constraint: Constraint): Promise<CompiledConstraint> {
    return this.#compiler.compile(constraint);
  }

  /** What `assemble` makes the same of as `compile` would, in no time, also in another thread. */
  plan(constraint: Constraint): Promise<ConstraintPlan> {
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
