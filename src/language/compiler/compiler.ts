import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { getOrInsert } from '../../util/get-or-insert.ts';
import { LanguageError } from '../error.ts';
import { Automaton } from '../grammar/automaton.ts';
import type { AutomatonState } from '../grammar/automaton-state.ts';
import { type ByteGraph, buildByteGraph, nodeCount } from '../grammar/byte-graph.ts';
import type { Constraint, Grammar, LimitedReasoning } from '../grammar/constraint.ts';
import { type CompiledConstraint, Ending, ReplyState } from '../grammar/constraint-state.ts';
import type { GrammarSource } from '../grammar/expression.ts';
import { checkDepth, checkLength } from '../grammar/limits.ts';
import { checkReasoning, ReasoningState, reasoningSource } from '../grammar/reasoning-state.ts';
import { RunTokensCache } from '../grammar/run-tokens.ts';
import { StateMemory } from '../grammar/state-memory.ts';
import { FreeTextState, GrammarText, type TextState, type Vocabulary } from '../grammar/text-state.ts';
import { LegalSets } from '../grammar/token-set.ts';
import { TokenTrie } from '../grammar/token-trie.ts';
import { Writable } from '../grammar/writable.ts';
import type { ChatFormat, Tokenizer } from '../tokenizer/tokenizer.ts';
import { grammarSource } from './grammar-source.ts';

interface Assembled extends CompiledConstraint {
  automata: Automaton[];
}

const cachedConstraints = 256;
/** Most nodes of all cached constraints: some hundred megabytes. */
const cachedNodes = 2_000_000;
/** This many characters of a constraint's JSON take as much memory as a node. */
const charactersOfNode = 64;

/** Up to so many tokens, a search through all of them takes less than a millisecond. */
const smallVocabulary = 8192;
/** The inside of a JSON string, of any length and of a limited one, and free text. */
const usualGrammars: readonly Exclude<Grammar, { type: 'text' }>[] = [
  { type: 'regex', pattern: '([^"\\\\\u0000-\u001f]|\\\\[nt"\\\\])*"' },
  { type: 'regex', pattern: '([^"\\\\\u0000-\u001f]|\\\\[nt"\\\\]){0,64}"' },
  { type: 'ebnf', grammar: 'root ::= [^<]* "<"' },
];

/**
 * Compiles constraints for one tokenizer and chat format, and caches those used last. Grammars run on an automaton of
 * our own because training needs what libraries of masks do not offer: legal sets without tokens that only spell the
 * same forced text differently, states that are recognised when they recur (so that a legal set costs a look-up), and a
 * refusal of every schema keyword that is not enforced.
 */
export class GrammarCompiler {
  readonly #ending: Ending;
  readonly #vocabulary: Vocabulary;
  readonly #writable: Writable | null;
  readonly #memory = new StateMemory();
  /** The JSON of constraints, which do not change once they were compiled. */
  readonly #keys = new WeakMap<Constraint, string>();
  /** Key: the constraint's JSON. */
  readonly #plans = new LRUCache<string, ConstraintPlan>({
    max: cachedConstraints,
    maxSize: cachedNodes,
    sizeCalculation: (plan, key) => planSize(plan) + Math.ceil((key.length + 1) / charactersOfNode),
  });
  /** Key: the plan's name. */
  readonly #ready = new LRUCache<string, Assembled>({
    max: cachedConstraints,
    maxSize: cachedNodes,
    sizeCalculation: ({ automata }) => automata.reduce((sum, { size }) => sum + size, 1),
    dispose: ({ automata }) => {
      for (const automaton of automata) automaton.clear();
    },
  });

  constructor(tokenizer: Tokenizer, { endToken }: Pick<ChatFormat, 'endToken'>) {
    const trie = new TokenTrie(tokenizer);
    this.#vocabulary = {
      trie,
      runs: new RunTokensCache(trie),
      sets: new LegalSets(),
      bytesOf: (token) => tokenizer.bytes(token),
    };
    this.#writable = Writable.of(tokenizer);
    this.#ending = new Ending(endToken);
    if (tokenizer.vocabularySize > smallVocabulary) this.#warmUp();
  }

  /**
   * Searches the whole vocabulary once for each usual set of characters. This fills the caches for all constraints and
   * makes V8 compile the search: with 150,000 tokens both would otherwise add 20 to 40 ms to the first reply.
   */
  #warmUp(): void {
    for (const grammar of usualGrammars) {
      const automaton = new Automaton(this.#graphOf(grammar), this.#memory);
      const text = new GrammarText(automaton, this.#vocabulary, { isFree: false });
      void text.start.legal;
      automaton.clear();
    }
  }

  /** Equal constraints compile once. Throws a `LanguageError` that says what is wrong with the constraint. */
  async compile(constraint: Constraint): Promise<CompiledConstraint> {
    return this.assemble(this.plan(constraint));
  }

  /** The slow part of `compile`, which also finds what is wrong with a constraint. */
  plan(constraint: Constraint): ConstraintPlan {
    const key = this.#keyOf(constraint);
    const known = this.#plans.get(key);
    if (known) return known;
    const { reasoning, grammar } = constraint;
    if (reasoning) checkReasoning(reasoning);
    const plan: ConstraintPlan = {
      name: createHash('sha256').update(key).digest('base64'),
      graph: grammar.type === 'text' ? null : this.#graphOf(grammar),
      isFree: grammar.type === 'text_or_calls' && grammar.content.type === 'text',
      reasoning: reasoning
        ? { ...reasoning, graph: buildByteGraph(this.#partOf(reasoningSource(reasoning))) }
        : null,
    };
    this.#plans.set(key, plan);
    return plan;
  }

  #keyOf(constraint: Constraint): string {
    const known = this.#keys.get(constraint);
    if (known !== undefined) return known;
    checkDepth(constraint);
    const key = JSON.stringify(constraint);
    checkLength(key);
    this.#keys.set(constraint, key);
    return key;
  }

  /** The fast part of `compile`. */
  assemble(plan: ConstraintPlan): CompiledConstraint {
    return getOrInsert(this.#ready, plan.name, () => this.#assemble(plan));
  }

  #assemble({ graph, isFree, reasoning }: ConstraintPlan): Assembled {
    const { trie } = this.#vocabulary;
    const automata: Automaton[] = [];
    const textOf = (of: ByteGraph, options: { isFree: boolean }): { readonly start: TextState } => {
      const automaton = new Automaton(of, this.#memory);
      automata.push(automaton);
      return new GrammarText(automaton, this.#vocabulary, options);
    };
    const text = graph ? textOf(graph, { isFree }) : { start: new FreeTextState(trie) };
    const answer = () => new ReplyState(text.start, this.#ending);
    if (!reasoning) return { start: answer, trie, automata };
    const reasoningText = textOf(reasoning.graph, { isFree: true });
    const tokensOf = (written: string) => trie.encodeBytes([...Buffer.from(written)]);
    const tokens = {
      before: tokensOf(reasoning.before),
      close: tokensOf(reasoning.close),
      after: tokensOf(reasoning.after),
      limit: reasoning.limit,
      start: () => reasoningText.start,
    };
    return { start: () => new ReasoningState(tokens, answer()), trie, automata };
  }

  #partOf(source: GrammarSource): GrammarSource {
    return this.#writable?.partOf(source) ?? source;
  }

  #graphOf(grammar: Exclude<Grammar, { type: 'text' }>): ByteGraph {
    if (grammar.type === 'text_or_calls' && grammar.content.type !== 'text')
      refuseAmbiguity(this.#graphOf(grammar.content), grammar.tag || '{');
    const graph = buildByteGraph(this.#partOf(grammarSource(grammar)));
    const automaton = new Automaton(graph, this.#memory);
    const { start } = automaton;
    automaton.checkLists();
    automaton.clear();
    if (!start.final || start.complete) return graph;
    const lacking = this.#writable
      ? ` that is written without the bytes ${this.#writable.missing}, for which the model has no token`
      : '';
    throw new LanguageError('grammar_empty', `The ${grammar.type} grammar allows no text${lacking}.`);
  }
}

/** Refuses text that may begin as a call does, because it would be read as one. */
function refuseAmbiguity(content: ByteGraph, tag: string): void {
  let state: AutomatonState | null = new Automaton(content).start;
  for (const byte of Buffer.from(tag)) state = state?.step(byte) ?? null;
  if (!state) return;
  throw new LanguageError(
    'calls_ambiguous',
    `Calls of this model begin with ${tag}, and so may a reply in this response_format or structured_outputs: the two could not be told apart. Send tool_choice "required" or "none".`,
  );
}

/**
 * The part of a compiled constraint that needs no tokens of a model. Its graphs are in shared memory: one thread does
 * the slow part, and other threads continue from it.
 */
export interface ConstraintPlan {
  /** Plans of equal constraints have the same name. */
  name: string;
  /** The graph of the grammar; null for any text. */
  graph: ByteGraph | null;
  /** See `GrammarText`. */
  isFree: boolean;
  /** With the graph of its text; null if there is none. */
  reasoning: (LimitedReasoning & { graph: ByteGraph }) | null;
}

/** Nodes of the graph of a plan's grammar. */
export const planSize = ({ graph }: ConstraintPlan): number => (graph ? nodeCount(graph.nodes) : 0);
