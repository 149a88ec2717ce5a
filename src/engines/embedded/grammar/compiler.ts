import { LRUCache } from 'lru-cache';
import type { ChatFormat, Constraint, Grammar, Tokenizer } from '../../engine.ts';
import { EngineError } from '../../engine-error.ts';
import { Automaton } from './automaton.ts';
import { type Branch, Branches, checkBranches } from './branches.ts';
import { buildByteGraph } from './byte-graph.ts';
import { BranchedState, type ConstraintState } from './constraint-state.ts';
import { grammarSource } from './grammar-source.ts';
import { checkDepth, checkLength } from './limits.ts';
import { checkReasoning, ReasoningState } from './reasoning-state.ts';
import { StateMemory } from './state-memory.ts';
import { FreeTextState, GrammarText } from './text-state.ts';
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

interface CachedConstraint {
  compiled: CompiledConstraint;
  automata: Automaton[];
}

const CACHED_CONSTRAINTS = 256;
/** Nodes of all cached constraints together: some hundred megabytes. */
const CACHED_NODES = 2_000_000;
/** Characters of a constraint's JSON that take as much as a node. */
const CHARACTERS_OF_A_NODE = 64;

export async function createGrammarCompiler(
  tokenizer: Tokenizer,
  format: ChatFormat,
): Promise<GrammarCompiler> {
  const trie = new TokenTrie(tokenizer);
  const special = new Set(tokenizer.special.values());
  const memory = new StateMemory();
  const cache = new LRUCache<string, CachedConstraint>({
    max: CACHED_CONSTRAINTS,
    maxSize: CACHED_NODES,
    sizeCalculation: ({ automata }, key) =>
      automata.reduce((sum, { size }) => sum + size, Math.ceil((key.length + 1) / CHARACTERS_OF_A_NODE)),
    dispose: ({ automata }) => {
      for (const automaton of automata) automaton.forget();
    },
  });

  const compile = (constraint: Constraint): CachedConstraint => {
    checkBranches(constraint, special, format.endToken);
    const automata: Automaton[] = [];
    const branches = constraint.branches.map(({ open, repeat, grammar }): Branch => {
      if (grammar.type === 'text') {
        const state = new FreeTextState(trie);
        return { open, repeat, freeText: true, start: () => state };
      }
      const automaton = compileGrammar(grammar, memory);
      automata.push(automaton);
      const text = new GrammarText(automaton, trie, (token) => tokenizer.bytes(token));
      return { open, repeat, freeText: false, start: () => text.start };
    });
    const table = new Branches(branches, format.endToken);
    const merge = mergeMemo();
    const answer = () => new BranchedState(table, merge);
    if (!constraint.reasoning) return { compiled: { start: answer }, automata };
    checkReasoning(constraint.reasoning, special, format.endToken);
    const reasoning = {
      ...constraint.reasoning,
      legal: Int32Array.from([...trie.textTokens, constraint.reasoning.close]).sort(),
    };
    return { compiled: { start: () => new ReasoningState(reasoning, answer()) }, automata };
  };

  return {
    async compile(constraint) {
      checkDepth(constraint);
      const key = JSON.stringify(constraint);
      checkLength(key);
      let cached = cache.get(key);
      if (!cached) {
        cached = compile(constraint);
        cache.set(key, cached);
      }
      return cached.compiled;
    },
  };
}

function compileGrammar(grammar: Exclude<Grammar, { type: 'text' }>, memory: StateMemory): Automaton {
  const automaton = new Automaton(buildByteGraph(grammarSource(grammar)), memory);
  const { start } = automaton;
  if (start.final && !start.complete)
    throw new EngineError('grammar_empty', `no text fits the ${grammar.type} grammar`);
  return automaton;
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
