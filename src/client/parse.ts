import type { z } from 'zod';
import { type Page, printable } from '../contract/index.ts';
import { messageOf } from '../util/error.ts';
import type { Answer } from './call.ts';
import { RequestError } from './errors.ts';
import { excerpt } from './status-error.ts';

/** Parses the answer's body with the contract's schema. @throws RequestError of code `bad_response` if it does not match. */
export function parseAnswer<Schema extends z.ZodType>(schema: Schema, answer: Answer): z.output<Schema> {
  return parseValue(schema, parseJson(answer), answer.facts);
}

export function parseValue<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  facts: Answer['facts'],
): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const { error: cause } = parsed;
  const [issue] = cause.issues;
  const detail = `the response does not match the contract: ${issue?.path.join('.')}: ${issue?.message}`;
  throw new RequestError('bad_response', { ...facts, detail }, { cause });
}

/** A parser of answers with this schema. */
export const parserOf =
  <Schema extends z.ZodType>(schema: Schema) =>
  (answer: Answer): z.output<Schema> =>
    parseAnswer(schema, answer);

/** Parses the answer's body, or a part of it, as JSON. @throws RequestError of code `bad_response` if it is not JSON. */
export function parseJson({ facts, text }: Answer, what = 'not JSON'): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    // V8's message quotes the text, so its control characters must be escaped.
    const cause = new SyntaxError(printable(messageOf(error)));
    throw new RequestError('bad_response', { ...facts, detail: `${what}: ${excerpt(text)}` }, { cause });
  }
}

/** Await it for one page, or iterate it with `for await` for all items from that page on. */
export type PageList<Item> = Promise<Page<Item>> & AsyncIterable<Item>;

export interface FetchedPage<Item> {
  page: Page<Item>;
  facts: Answer['facts'];
}

/** Adds the facts of the call to a page parser. */
export const fetchedBy =
  <Item>(parse: (answer: Answer) => Page<Item>) =>
  (answer: Answer): FetchedPage<Item> => ({ page: parse(answer), facts: answer.facts });

export function pageList<Item>(
  after: string | undefined,
  fetchPage: (after: string | undefined) => Promise<FetchedPage<Item>>,
): PageList<Item> {
  const first = fetchPage(after);
  async function* items(): AsyncGenerator<Item> {
    let cursor = after;
    let fetched = await first;
    for (;;) {
      yield* fetched.page.data;
      if (!fetched.page.has_more) return;
      cursor = nextCursor(fetched, cursor);
      fetched = await fetchPage(cursor);
    }
  }
  const page = first.then((fetched) => fetched.page);
  // A caller that only iterates gets the failure there. Without this the promise's rejection would be unhandled.
  page.catch(() => {});
  return Object.assign(page, { [Symbol.asyncIterator]: items });
}

/**
 * The cursor of the next page.
 * @throws RequestError of code `bad_response` if it does not advance, which would loop forever.
 */
export function nextCursor({ page, facts }: FetchedPage<unknown>, cursor: string | undefined): string {
  if (page.last_id === '' || page.last_id === cursor) {
    const detail = `the page has has_more, but its last_id "${page.last_id}" does not advance`;
    throw new RequestError('bad_response', { ...facts, detail });
  }
  return page.last_id;
}
