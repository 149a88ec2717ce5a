import { getOrInsert } from '../../util/get-or-insert.ts';
import { escapeForPattern } from '../../util/pattern.ts';
import { CALL_ID, type CallForm, tagOf } from '../call-forms.ts';

/** How calls of a form are read. */
export interface CallPatterns {
  /** What they begin with; empty for bare JSON. */
  tag: string;
  /** From after the tag to the arguments of the first call; in a list, from the arguments of a call to those of the next. */
  first: RegExp;
  next: RegExp | null;
  /** What is skipped up to and including, after the arguments of the last call; empty if nothing follows. */
  end: string;
  /** Whether names are texts of JSON. */
  isQuoted: boolean;
  /** The id of a call between its arguments and `end`. */
  id: RegExp | null;
}

const known = new WeakMap<CallForm, CallPatterns>();

/** Models are read with any white space, and with either name of the field of arguments. */
export const patternsOf = (form: CallForm): CallPatterns => getOrInsert(known, form, () => patterns(form));

function patterns(form: CallForm): CallPatterns {
  const { tags, open, beforeName, beforeArguments, between, close } = form;
  const tag = tagOf(form);
  const isQuoted = beforeName.endsWith('"');
  const isJson = form.arguments === 'json';
  // The arguments in other notations contain their end.
  const after = isJson ? form.after : '';
  const name = isQuoted
    ? String.raw`(?<name>(?:[^"\\]|\\.)*)`
    : String.raw`\s*(?<name>[^\s=,()[\]{}'"<>]+)\s*`;
  const next = isQuoted ? String.raw`\s*(?=\S)` : isJson ? String.raw`\s*(?=\{)` : '';
  const headAfter = (text: string, id: string) =>
    new RegExp(`^\\s*${loosely(text, anyId(id))}${name}${loosely(beforeArguments, anyId('id'))}${next}`);
  const last = close || form.after;
  return {
    tag,
    first: headAfter((open + beforeName).slice(tag.length), ''),
    next: open === '' ? null : headAfter(after + between + beforeName, 'before'),
    end: tags.findLast((one) => last.endsWith(one)) ?? last.trim(),
    isQuoted,
    id: after.includes(CALL_ID) ? new RegExp(`^\\s*${loosely(after, anyId('id'))}`) : null,
  };
}

const anyId = (name: string) => String.raw`(?<${name}>[\w-]+)`;

/** A pattern of a text with any white space between its words and marks. What leads to an id may be left out. */
function loosely(text: string, id: string): string {
  const [, withId = '', rest = ''] = new RegExp(`^([^]*${CALL_ID}"?)?([^]*)$`).exec(text) ?? [];
  const pattern = (part: string) =>
    Array.from(part.matchAll(/"\w+"|\w+|[^\s\w]/g), ([word]) => {
      if (word === CALL_ID) return id;
      return /^"(arguments|parameters)"$/.test(word) ? '"(?:arguments|parameters)"' : escapeForPattern(word);
    }).join(String.raw`\s*`);
  return withId === '' ? pattern(rest) : `(?:${pattern(withId)})?\\s*${pattern(rest)}`;
}

/** What a template writes of replies with calls of `probe`, with `CALL_ID` for ids. Null if it refuses or leaves them out. */
interface CallProbe {
  name: string;
  /** A pattern of its arguments as the form writes them. */
  arguments: string;
  /** A text, or none, and so many calls. */
  reply(text: string, calls: number): string | null;
}

/** The form with the white space of a template, and with ids only if it writes them; as it is if the template writes another. */
export function asTemplateWrites<Form extends CallForm>(
  form: Form,
  { name, arguments: written, reply }: CallProbe,
): CallForm {
  const text = (part: 'open' | 'beforeName' | 'beforeArguments' | 'after' | 'between' | 'close') => {
    const begins = part === 'open' || part === 'beforeName';
    const mayBeSpace = form[part] !== '' || part === 'between' || part === 'beforeArguments';
    const space = mayBeSpace ? String.raw`\s*` : '';
    return `(?<${part}>${begins ? '' : space}${loosely(form[part], CALL_ID)}${space})`;
  };
  const two = new RegExp(
    `\\s*${text('open')}${text('beforeName')}${name}${text('beforeArguments')}${written}${text('after')}` +
      `${text('between')}\\k<beforeName>${name}\\k<beforeArguments>${written}\\k<after>${text('close')}$`,
  ).exec(reply('', 2) ?? '')?.groups;
  if (!two) return form;
  const spaced = { ...form, ...two };
  const first = escapeForPattern(spaced.open + spaced.beforeName);
  const [, afterText = form.afterText] = new RegExp(`text(\\s*)${first}`).exec(reply('text', 1) ?? '') ?? [];
  return { ...spaced, afterText };
}
