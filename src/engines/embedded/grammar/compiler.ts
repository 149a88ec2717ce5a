import { LRUCache } from 'lru-cache';
import type { ChatFormat, Constraint, Grammar, Tokenizer } from '../../engine.ts';
import { EngineError } from '../../engine-error.ts';
import { Automaton } from './automaton.ts';
import { Branches, checkBranches } from './branches.ts';
import { buildByteGraph } from './byte-graph.ts';
import { BranchedState, type ConstraintState } from './constraint-state.ts';
import { grammarSource } from './grammar-source.ts';
import { FreeTextState, GrammarText, type TextState } from './text-state.ts';
import { TokenTrie } from './token-trie.ts';

export interface GrammarCompiler {
  /**
   * Throws an `EngineError` that says what is wrong with the constraint. Equal constraints compile once: the
   * ones used last are kept, with all that was computed of them.
   */
  compile(constraint: Constraint): Promise<CompiledConstraint>;
}

export interface CompiledConstraint {
  /** A reply that has not begun. */
  start(): ConstraintState;
}

const CACHED_CONSTRAINTS = 256;

export async function createGrammarCompiler(
  tokenizer: Tokenizer,
  format: ChatFormat,
): Promise<GrammarCompiler> {
  const trie = new TokenTrie(tokenizer);
  const special = new Set(tokenizer.special.values());
  const cache = new LRUCache<string, CompiledConstraint>({ max: CACHED_CONSTRAINTS });

  const compile = (constraint: Constraint): CompiledConstraint => {
    checkBranches(constraint, special, format.endToken);
    const branches = constraint.branches.map(({ open, repeat, grammar }) => ({
      open,
      repeat,
      freeText: grammar.type === 'text',
      start: compileGrammar(grammar, trie, tokenizer),
    }));
    const table = new Branches(branches, format.endToken);
    const merge = mergeMemo();
    return { start: () => new BranchedState(table, merge) };
  };

  return {
    async compile(constraint) {
      const key = JSON.stringify(constraint);
      let compiled = cache.get(key);
      if (!compiled) {
        compiled = compile(constraint);
        cache.set(key, compiled);
      }
      return compiled;
    },
  };
}

/** What makes the state at the beginning of a grammar's text. */
function compileGrammar(grammar: Grammar, trie: TokenTrie, tokenizer: Tokenizer): () => TextState {
  if (grammar.type === 'text') {
    const state = new FreeTextState(trie);
    return () => state;
  }
  const automaton = new Automaton(buildByteGraph(grammarSource(grammar)));
  const { start } = automaton;
  if (start.final && !start.complete)
    throw new EngineError('grammar_empty', `no text fits the ${grammar.type} grammar`);
  const text = new GrammarText(trie, (token) => tokenizer.bytes(token));
  return () => text.at(automaton.start);
}

/** Legal text and special tokens together, ascending; each pair of lists is merged once. */
function mergeMemo(): (text: Int32Array, special: Int32Array) => Int32Array {
  const merged = new WeakMap<Int32Array, Map<Int32Array, Int32Array>>();
  return (text, special) => {
    let bySpecial = merged.get(text);
    if (!bySpecial) {
      bySpecial = new Map();
      merged.set(text, bySpecial);
    }
    let both = bySpecial.get(special);
    if (!both) {
      both = Int32Array.from([...text, ...special]).sort();
      bySpecial.set(special, both);
    }
    return both;
  };
}
