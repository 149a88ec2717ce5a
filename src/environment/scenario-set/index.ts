export type { DifficultyOptions, DifficultyReport } from './difficulty.ts';
export { ScenarioFileError, ScenarioPositionError, ScenarioSetError } from './errors.ts';
export type { Generate } from './generator-stage.ts';
export { digest, type KeyFunction, scenarioKey } from './scenario-key.ts';
export { type MixedSet, ScenarioSet, type ScenarioSetOptions } from './scenario-set.ts';
export type { DrawnScenario, JsonValue, ScenarioResult, ScenarioSource } from './scenario-source.ts';
export type { SplitOptions } from './split.ts';
export { toScenarioSource } from './to-scenario-source.ts';
