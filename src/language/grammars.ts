/** What applies constraints to tokens, as a third door: only the engine that does so loads the compiler of grammars. */
export { ConstraintChecker } from './compiler/checker.ts';
export { type ConstraintPlan, GrammarCompiler } from './compiler/compiler.ts';
export type { ConstraintState } from './grammar/constraint-state.ts';
export { encodeReply } from './grammar/encode-reply.ts';
export type { ShouldPause } from './grammar/legal-search.ts';
export type { TokenSet } from './grammar/token-set.ts';
