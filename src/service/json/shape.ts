import { requestLimits } from '../../contract/index.ts';
import { RequestValidationError } from '../errors.ts';
import { endOfString } from './member.ts';

/** How JSON text may be built. */
export type JsonShape = Pick<typeof requestLimits, 'depth' | 'containers' | 'members' | 'values'>;

export interface JsonShapeOptions {
  /** Default: those of a body. */
  limits?: Readonly<Record<keyof JsonShape, number>>;
  /** Where the text stands in the request, for errors. Default: it is the body. */
  at?: string[];
}

const quote = 0x22;

/**
 * Refuses JSON text that is nested too deeply, or made of too many values, before it is parsed: a parser takes seconds
 * for a million names, and what reads a value goes down into it call by call. Text that is no JSON may pass: the
 * parser says what is wrong with it.
 */
export function refuseHeavyJson(
  text: string,
  { limits = requestLimits, at = ['body'] }: JsonShapeOptions = {},
): void {
  const { depth: deepest, containers: mostContainers, members: mostMembers, values: mostValues } = limits;
  let depth = 0;
  let containers = 0;
  let members = 0;
  let commas = 0;
  for (let index = 0; index < text.length; index++) {
    switch (text.charCodeAt(index)) {
      case quote:
        index = endOfString(text, index);
        break;
      case 0x5b:
      case 0x7b:
        if (++depth > deepest) throw refusal(at, 'too_deep', `nested more than ${deepest} deep`, deepest);
        if (++containers > mostContainers)
          throw refusal(at, 'too_long', `of more than ${mostContainers} arrays and objects`, mostContainers);
        break;
      case 0x5d:
      case 0x7d:
        depth--;
        break;
      case 0x3a:
        if (++members > mostMembers)
          throw refusal(at, 'too_long', `of more than ${mostMembers} members of objects`, mostMembers);
        break;
      case 0x2c:
        if (++commas >= mostValues)
          throw refusal(at, 'too_long', `of more than ${mostValues} values`, mostValues);
    }
  }
}

const refusal = (loc: string[], type: 'too_deep' | 'too_long', what: string, limit: number) =>
  new RequestValidationError([
    {
      loc,
      msg: `is JSON ${what}, and that is the most; send a smaller value`,
      type,
      ctx: { [type === 'too_deep' ? 'max_depth' : 'max_length']: limit },
    },
  ]);
