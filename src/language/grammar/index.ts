/**
 * Constrained decoding. Grammars run on an automaton of our own, because training needs what libraries of masks do
 * not give: legal sets without tokens that differ only in how they spell the same forced text, states that are
 * recognised when they come again (so that a legal set costs a look-up), and a refusal of every schema keyword
 * that is not enforced.
 */
export { type CompiledConstraint, createGrammarCompiler, type GrammarCompiler } from './compiler.ts';
export { type ConstraintPlan, planSize } from './constraint-plan.ts';
export type { ConstraintState } from './constraint-state.ts';
export { encodeReply } from './encode-reply.ts';
export type { IsOver } from './token-trie.ts';
