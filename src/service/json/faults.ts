import { RequestValidationError, ServiceError } from '../errors.ts';

/** What a body that is no JSON is refused with. */
export function malformed(reason: string, at?: number): RequestValidationError {
  const place = at === undefined ? reason : `${reason} at byte ${at}`;
  return new RequestValidationError([
    {
      loc: ['body'],
      msg: `JSON decode error: ${place}`,
      type: 'json_invalid',
      input: null,
      ctx: { error: place },
    },
  ]);
}

export const tooDeep = (limit: number) =>
  new ServiceError(422, 'too_deep', `The body is nested too deeply: at most ${limit} levels are read.`);

export const tooManyMembers = (limit: number) =>
  new RequestValidationError([
    {
      loc: ['body'],
      msg: `is JSON of more than ${limit} members of one object, and that is the most; send a smaller value`,
      type: 'too_long',
      input: null,
      ctx: { max_length: limit },
    },
  ]);
