import { MartingaleError } from '../contract/index.ts';

/**
 * - `not_found`: there is no such run, step, group, rollout or file.
 * - `bad_request`: the address or the question cannot be understood.
 * - `service_failed`: the service that is shown too refused or did not answer.
 */
type ViewErrorCode = 'not_found' | 'bad_request' | 'service_failed';

/** What cannot be shown. Its message is for the person who looks. */
export class ViewError extends MartingaleError<ViewErrorCode> {}

export const notFound = (message: string): ViewError => new ViewError('not_found', message);
