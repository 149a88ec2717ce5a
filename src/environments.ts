import './platform/check-node.ts';

/** Task folders of Harbor, and where they run. */
export { HarborError, type HarborErrorCode } from './formats/harbor/errors.ts';
export {
  type HarborAgentContext,
  type HarborScenario,
  type HarborTasks,
  type HarborTasksOptions,
  harborTasks,
} from './formats/harbor/harbor-tasks.ts';
export { type DockerSandboxOptions, dockerSandbox } from './formats/harbor/sandbox/docker/docker-sandbox.ts';
export { type E2bSandboxOptions, e2bSandbox } from './formats/harbor/sandbox/e2b/e2b-sandbox.ts';
export { type LocalSandboxOptions, localSandbox } from './formats/harbor/sandbox/local/local-sandbox.ts';
export type {
  BareSandbox,
  ExecOptions,
  ExecResult,
  ExposeOptions,
  FileOptions,
  Sandbox,
  SandboxImage,
  SandboxKind,
  SandboxSettings,
} from './formats/harbor/sandbox/sandbox.ts';
/** Environments that others have made and serve, of OpenEnv and of the Open Reward Standard; and ours for others. */
export { OpenEnvError, type OpenEnvErrorCode } from './formats/open-env/error.ts';
export {
  type OpenEnv,
  type OpenEnvOptions,
  type OpenEnvScenario,
  type OpenEnvView,
  openEnv,
} from './formats/open-env/open-env.ts';
export {
  type OpenReward,
  type OpenRewardOptions,
  openReward,
} from './formats/open-reward/open-reward.ts';
export {
  type ServedEnvironmentServer,
  type ServeEnvironmentOptions,
  serveEnvironment,
} from './formats/open-reward/serve/serve-environment.ts';
export type { SessionProblem } from './formats/open-reward/serve/sessions.ts';
export {
  OpenRewardError,
  type OpenRewardErrorCode,
} from './formats/open-reward/server.ts';
export type { OpenRewardTask } from './formats/open-reward/session.ts';
