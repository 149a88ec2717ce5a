import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Constraint, Grammar } from '../constraint/constraint.ts';
import { LanguageError } from '../error.ts';
import type { ChatFormat, Tokenizer } from '../tokenizer/tokenizer.ts';
import { Automaton } from './automaton.ts';
import { type ByteGraph, buildByteGraph, nodeCount } from './byte-graph.ts';
import {
  type Branch,
  BranchedState,
  Branches,
  type ConstraintState,
  checkBranches,
} from './constraint-state.ts';
import { grammarSource } from './grammar-source.ts';
import { checkDepth, checkLength } from './limits.ts';
import { checkReasoning, ReasoningState } from './reasoning-state.ts';
import { StateMemory } from './state-memory.ts';
import { FreeTextState, GrammarText } from './text-state.ts';
import { LegalSets, TokenTrie } from './token-trie.ts';

export interface GrammarCompiler {
  /**
   * Throws a `LanguageError` that says what is wrong with the constraint. Equal constraints compile once: the
   * ones used last are kept, with all that was computed of them.
   */
  compile(constraint: Constraint): Promise<CompiledConstraint>;
  /** The part of `compile` that takes long, and finds what is wrong. */
  plan(constraint: Constraint): Promise<ConstraintPlan>;
  /** The part of `compile` that takes no time. */
  assemble(plan: ConstraintPlan): CompiledConstraint;
}

export interface CompiledConstraint {
  /** A reply that has not begun. */
  start(): ConstraintState;
}

interface Assembled extends CompiledConstraint {
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
  const vocabulary = { trie, sets: new LegalSets(), bytesOf: (token: number) => tokenizer.bytes(token) };
  const special = new Set(tokenizer.special.values());
  const memory = new StateMemory();
  /** By the constraint's JSON. */
  const plans = new LRUCache<string, ConstraintPlan>({
    max: CACHED_CONSTRAINTS,
    maxSize: CACHED_NODES,
    sizeCalculation: (plan, key) => planSize(plan) + Math.ceil((key.length + 1) / CHARACTERS_OF_A_NODE),
  });
  /** By the plan's name. */
  const ready = new LRUCache<string, Assembled>({
    max: CACHED_CONSTRAINTS,
    maxSize: CACHED_NODES,
    sizeCalculation: ({ automata }) => automata.reduce((sum, { size }) => sum + size, 1),
    dispose: ({ automata }) => {
      for (const automaton of automata) automaton.forget();
    },
  });

  const build = ({ branches: planned, reasoning }: ConstraintPlan): Assembled => {
    const automata: Automaton[] = [];
    const branches = planned.map(({ open, repeat, graph }): Branch => {
      if (!graph) {
        const state = new FreeTextState(trie);
        return { open, repeat, freeText: true, start: () => state };
      }
      const automaton = new Automaton(graph, memory);
      automata.push(automaton);
      const text = new GrammarText(automaton, vocabulary);
      return { open, repeat, freeText: false, start: () => text.start };
    });
    const table = new Branches(branches, format.endToken);
    const merge = mergeMemo();
    const answer = () => new BranchedState(table, merge);
    if (!reasoning) return { start: answer, automata };
    const legal = Int32Array.from([...trie.textTokens, reasoning.close]).sort();
    return { start: () => new ReasoningState({ ...reasoning, legal }, answer()), automata };
  };

  const assemble = (plan: ConstraintPlan): Assembled => {
    const known = ready.get(plan.name);
    if (known) return known;
    const assembled = build(plan);
    ready.set(plan.name, assembled);
    return assembled;
  };

  const lay = (constraint: Constraint, name: string): ConstraintPlan => {
    checkBranches(constraint, special, format.endToken);
    const { reasoning } = constraint;
    if (reasoning) checkReasoning(reasoning, special, format.endToken);
    const branches = constraint.branches.map(({ open, repeat, grammar }) => ({
      open,
      repeat,
      graph: grammar.type === 'text' ? null : graphOf(grammar, memory),
    }));
    return { name, reasoning, branches };
  };

  const plan = (constraint: Constraint): ConstraintPlan => {
    checkDepth(constraint);
    const key = JSON.stringify(constraint);
    checkLength(key);
    let known = plans.get(key);
    if (!known) {
      known = lay(constraint, createHash('sha256').update(key).digest('base64'));
      plans.set(key, known);
    }
    return known;
  };

  return {
    plan: async (constraint) => plan(constraint),
    compile: async (constraint) => assemble(plan(constraint)),
    assemble,
  };
}

function graphOf(grammar: Exclude<Grammar, { type: 'text' }>, memory: StateMemory): ByteGraph {
  const graph = buildByteGraph(grammarSource(grammar));
  const automaton = new Automaton(graph, memory);
  const { start } = automaton;
  automaton.forget();
  if (start.final && !start.complete)
    throw new LanguageError('grammar_empty', `no text fits the ${grammar.type} grammar`);
  return graph;
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

/**
 * A constraint as far as it is compiled without a model's tokens. Its graphs lie in memory that threads share: one
 * thread compiles a constraint, and the others begin with what has cost the time.
 */
export interface ConstraintPlan {
  /** Plans of equal constraints have the same. */
  name: string;
  reasoning: Constraint['reasoning'];
  /** The branches of the constraint, each with the graph of its grammar; null where that is any text. */
  branches: { open: number | null; repeat: boolean; graph: ByteGraph | null }[];
}

/** Nodes of all its graphs. */
export const planSize = ({ branches }: ConstraintPlan): number =>
  branches.reduce((sum, { graph }) => sum + (graph ? nodeCount(graph.nodes) : 0), 0);
