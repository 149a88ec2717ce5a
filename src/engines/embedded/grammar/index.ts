export { type CompiledConstraint, createGrammarCompiler, type GrammarCompiler } from './compiler.ts';
export type { ConstraintState } from './constraint-state.ts';
export { encodeReply } from './encode-reply.ts';
