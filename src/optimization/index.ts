export { OptimizationError, type OptimizationErrorCode } from './error.ts';
export {
  type OptimizationCandidate,
  type OptimizationIteration,
  type OptimizationProposal,
  type OptimizationRecord,
  type OptimizationSpent,
  optimizationFile,
  readOptimization,
} from './log.ts';
export { optimize } from './optimize.ts';
export type {
  Optimization,
  OptimizationBudget,
  OptimizeOptions,
  Reflected,
  ReflectFunction,
  ReflectionExample,
  ReflectionRequest,
} from './options.ts';
export { bestOf, frontOf } from './selection.ts';
