import '../platform/check-node.ts';

export { printable, printableLines } from '../contract/index.ts';
export {
  type Comparison,
  comparisonLines,
  type Evaluated,
  type NextCommand,
  type ProgressOptions,
  type ProgressView,
  printLines,
  showProgress,
  writeJsonLine,
} from '../progress/index.ts';
export { makeFolder } from '../util/durable-files.ts';
export { serviceUrl, wholeNumber } from './flags.ts';
export {
  describeFailure,
  exitAfterFlush,
  type Interrupt,
  type InterruptOptions,
  type InterruptReason,
  listenForInterrupt,
} from './program-end.ts';
export type {
  EnvironmentRecipe,
  LearningRecipe,
  Recipe,
  RecipeDescription,
  RecipeRun,
  Seeded,
} from './recipe/definition.ts';
export type { RecipeOptions } from './recipe/options.ts';
export { runRecipe } from './recipe/recipe.ts';
