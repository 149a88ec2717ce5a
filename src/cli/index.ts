import '../platform/check-node.ts';

export { printable } from '../contract/index.ts';
export { serviceUrl } from './flags.ts';
export { describeFailure } from './program-end.ts';
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
