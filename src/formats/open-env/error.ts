import { MartingaleError } from '../../contract/index.ts';

/**
 * - `environment_server_away`: it cannot be reached, is cut off, or goes silent
 * - `environment_server_refused`: it refuses a request, or says something that OpenEnv does not have
 * - `environment_failed`: its environment threw or could not be made
 * - `action_invalid`: `action` returned what does not fit the schema of the server's actions
 * - `bad_option`: an option names what the server does not have, is missing, or has a value that cannot be used
 */
export type OpenEnvErrorCode =
  | 'environment_server_away'
  | 'environment_server_refused'
  | 'environment_failed'
  | 'action_invalid'
  | 'bad_option';

/** An environment server of OpenEnv, or its environment, failed. */
export class OpenEnvError extends MartingaleError<OpenEnvErrorCode> {}
