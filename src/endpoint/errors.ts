import { MartingaleError } from '../contract/index.ts';

export type EndpointStatus = 400 | 401 | 404 | 410 | 413 | 415 | 503;

/** A request that the endpoint itself turns down. */
export class EndpointError extends MartingaleError {
  readonly status: EndpointStatus;
  /** The field it is about, as OpenAI-compatible errors name it. */
  readonly param: string | null;

  constructor(status: EndpointStatus, code: string, message: string, param: string | null = null) {
    super(code, message);
    this.status = status;
    this.param = param;
  }
}

/** A field, or a value of one, that has no equivalent here: refused rather than ignored. */
export function unsupported(param: string, remedy: string): EndpointError {
  return new EndpointError(
    400,
    'unsupported_parameter',
    `\`${param}\` is not supported here. ${remedy}`,
    param,
  );
}

export function invalid(param: string, problem: string): EndpointError {
  return new EndpointError(400, 'invalid_parameter', `\`${param}\` ${problem}`, param);
}
