import '../platform/check-node.ts';

export { printable, printableLines } from '../contract/index.ts';
export { makeFolder } from '../evaluation/index.ts';
export {
  type Comparison,
  comparisonLines,
  type Evaluated,
  type NextCommand,
  type ProgressOptions,
  type ProgressView,
  printLines,
  shortPath,
  showProgress,
  writeJsonLine,
} from '../progress/index.ts';
export { exitAfterFlush } from './exit-after-flush.ts';
export { describeFailure } from './fail.ts';
export { serviceUrl, wholeNumber } from './flags.ts';
export {
  type Interrupt,
  type InterruptOptions,
  type InterruptReason,
  listenForInterrupt,
} from './interrupt.ts';
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
