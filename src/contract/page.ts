import { z } from 'zod';
import { text } from './bounded.ts';
import { requestLimits } from './limits.ts';

/** A whole number in a path or a query, in decimal digits. */
export const wholeNumberText = <Schema extends z.ZodType<number>>(schema: Schema) =>
  z.preprocess((text) => (typeof text === 'string' && /^\d{1,15}$/.test(text) ? Number(text) : text), schema);

/** Query parameters of a list. */
export const pageQuerySchema = z.object({
  after: text(requestLimits.name)
    .optional()
    .describe(
      'Id of the last item of the previous page; the list continues after it. Empty or absent: the first page.',
    ),
  limit: wholeNumberText(z.int().min(1).max(100)).default(20).describe('Number of items per page.'),
});

export const orderedPageQuerySchema = pageQuerySchema.extend({
  order: z.enum(['asc', 'desc']).default('asc').describe('`desc`: newest first.'),
});

/** A page of items, in the shape that cursor-paging clients expect. The next page has `after = last_id`. */
export const pageSchema = <Item extends z.ZodType>(item: Item) =>
  z.object({
    object: z.literal('list'),
    data: z.array(item),
    first_id: z.string().describe('Empty on an empty page.'),
    last_id: z.string().describe('Value for `after` of the next page. Empty on an empty page.'),
    has_more: z.boolean(),
  });

export interface Page<Item> {
  object: 'list';
  data: Item[];
  first_id: string;
  last_id: string;
  has_more: boolean;
}
