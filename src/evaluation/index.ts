export { average, type Estimate, estimate } from './estimate.ts';
export {
  type EvaluateOptions,
  type Evaluation,
  evaluate,
  type ScenarioScore,
  successOf,
} from './evaluate.ts';
