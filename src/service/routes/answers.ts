import type { Context } from 'hono';
import type { Page } from '../../contract/index.ts';
import { readText } from '../body.ts';
import type { ServiceContext } from '../context.ts';
import type { Answer } from '../idempotency.ts';
import type { StoredPage } from '../store/store.ts';

/** Reads the body of a POST under /v1/preview and answers it, once for each Idempotency-Key. */
export async function answerOnce(
  service: ServiceContext,
  context: Context,
  work: (body: string, resourceId: string) => Promise<Answer>,
): Promise<Response> {
  const body = await readText(context, service.bodyLimits.preview);
  const request = {
    key: context.req.header('idempotency-key'),
    method: context.req.method,
    path: context.req.path,
    body,
  };
  const answer = await service.idempotency.run(request, (resourceId) => work(body, resourceId));
  return context.json(answer.body, answer.status);
}

export function toPage<Stored, Item extends { id: string }>(
  { items, hasMore }: StoredPage<Stored>,
  convert: (item: Stored) => Item,
): Page<Item> {
  const data = items.map(convert);
  return {
    object: 'list',
    data,
    first_id: data[0]?.id ?? '',
    last_id: data.at(-1)?.id ?? '',
    has_more: hasMore,
  };
}
