import type { z } from 'zod';
import { type Page, printable } from '../contract/index.ts';
import type { Answer } from './call.ts';
import { BadResponseError } from './errors.ts';
import { excerpt } from './status-error.ts';

/** The answer's body, checked against the contract. */
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
  const issue = parsed.error.issues[0];
  const detail = `the response is not what the contract says: ${issue?.path.join('.')}: ${issue?.message}`;
  throw new BadResponseError({ ...facts, detail }, { cause: parsed.error });
}

/** Reads answers of that schema. */
export const parserOf =
  <Schema extends z.ZodType>(schema: Schema) =>
  (answer: Answer): z.output<Schema> =>
    parseAnswer(schema, answer);

/** The answer's body, or a part of it, as JSON. */
export function parseJson({ facts, text }: Answer, what = 'not JSON'): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    // What V8 says has a piece of the text in it.
    const cause = new SyntaxError(printable(error instanceof Error ? error.message : String(error)));
    throw new BadResponseError({ ...facts, detail: `${what}: ${excerpt(text)}` }, { cause });
  }
}

/** Awaited it is one page; iterated with `for await` it is every item from that page on, page by page. */
export type PageList<Item> = Promise<Page<Item>> & AsyncIterable<Item>;

export interface FetchedPage<Item> {
  page: Page<Item>;
  facts: Answer['facts'];
}

/** Reads a page with a parser of its own. */
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
  // Whoever only iterates meets the failure there; this promise then has nobody to handle it.
  page.catch(() => {});
  return Object.assign(page, { [Symbol.asyncIterator]: items });
}

/** Where the next page begins. A cursor that stands still would be asked for forever. */
export function nextCursor({ page, facts }: FetchedPage<unknown>, cursor: string | undefined): string {
  if (page.last_id === '' || page.last_id === cursor) {
    const detail = `the page says has_more, but its last_id "${page.last_id}" leads no further`;
    throw new BadResponseError({ ...facts, detail });
  }
  return page.last_id;
}
