export { commonFailures } from './common-failures.ts';
export { type Books, keepBooks, type Rollout, type RolloutFailure } from './rollout.ts';
export { RolloutGroup } from './rollout-group.ts';
export {
  type GroupsResult,
  parseScenarios,
  type RunGroupsOptions,
  runGroups,
  ScenarioError,
} from './run-groups.ts';
