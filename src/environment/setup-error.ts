import { MartingaleError } from '../contract/index.ts';

/** The environment's `setup` threw: no agent was run. `cause` is what it threw. */
export class SetupError extends MartingaleError {
  constructor(environment: string, what: string, options: ErrorOptions) {
    super('setup_failed', `\`setup\` of environment "${environment}" threw: ${what}`, options);
  }
}
