import { z } from 'zod';

/** Query of a list: `after` is the id of the last item already seen. */
export const pageQuerySchema = z.object({
  after: z.string().optional(),
  limit: z.coerce.number().int().min(1).max(100).default(20),
});

export const orderedPageQuerySchema = pageQuerySchema.extend({
  order: z.enum(['asc', 'desc']).default('asc'),
});

/** A page of items, in the shape that cursor-paging clients follow: continue with `after = last_id`. */
export const pageSchema = <Item extends z.ZodType>(item: Item) =>
  z.object({
    object: z.literal('list'),
    data: z.array(item),
    first_id: z.string(),
    last_id: z.string(),
    has_more: z.boolean(),
  });

export interface Page<Item> {
  object: 'list';
  data: Item[];
  first_id: string;
  last_id: string;
  has_more: boolean;
}
