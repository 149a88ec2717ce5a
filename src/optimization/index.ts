export { OptimizationError, type OptimizationErrorCode } from './error.ts';
export {
  type Candidate,
  type IterationRecord,
  type OptimizationRecord,
  optimizationFile,
  type ProposalRecord,
  readOptimization,
  type Spent,
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
export { bestOf, frontOf, meanOf } from './selection.ts';
