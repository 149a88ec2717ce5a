import type { ChatFormat, Constraint, Reply, Tokenizer } from '../engine.ts';
import {
  type CompiledConstraint,
  createGrammarCompiler,
  encodeReply,
  type GrammarCompiler,
} from './grammar/index.ts';
import { chatFormat, loadTokenizer } from './tokenizer/index.ts';

/** What sampling and training need to know of text: tokens, the tokens of a conversation, and grammars. */
export class ConversationCodec {
  readonly tokenizer: Tokenizer;
  readonly format: ChatFormat;
  /** The tokens a reply may hold where no constraint says otherwise: all text, and the end. Ascending. */
  readonly unconstrained: Int32Array;
  readonly #compiler: GrammarCompiler;

  private constructor(tokenizer: Tokenizer, format: ChatFormat, compiler: GrammarCompiler) {
    this.tokenizer = tokenizer;
    this.format = format;
    this.#compiler = compiler;
    const special = new Set(tokenizer.special.values());
    const ids = Array.from({ length: tokenizer.vocabularySize }, (_, id) => id);
    this.unconstrained = Int32Array.from(ids.filter((id) => id === format.endToken || !special.has(id)));
  }

  static async create(): Promise<ConversationCodec> {
    const tokenizer = loadTokenizer();
    const format = chatFormat(tokenizer);
    return new ConversationCodec(tokenizer, format, await createGrammarCompiler(tokenizer, format));
  }

  compile(constraint: Constraint): Promise<CompiledConstraint> {
    return this.#compiler.compile(constraint);
  }

  async encodeReply(reply: Reply): Promise<number[]> {
    const compiled = reply.constraint && (await this.compile(reply.constraint));
    return encodeReply(reply, compiled, this.tokenizer, this.format);
  }
}
