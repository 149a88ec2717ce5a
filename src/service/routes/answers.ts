import type { Context } from 'hono';
import type { Page } from '../../contract/index.ts';
import { accessOf, tenantOf } from '../access.ts';
import { contentOf, type ReceivedBody } from '../bodies/bodies.ts';
import type { ServiceContext } from '../context.ts';
import type { Answer } from '../idempotency.ts';
import type { StoredPage } from '../store/store.ts';

/** Largest body, in bytes, for requests without trajectories or training data. */
export const textBytes = 4 * 1024 ** 2;

/** Reads the body of a POST under /v1/preview and answers it, once per Idempotency-Key. */
export function answerOnce(
  service: ServiceContext,
  context: Context,
  work: (content: Buffer, resourceId: string) => Promise<Answer>,
): Promise<Response> {
  const limit = Math.min(textBytes, service.bodyLimits.preview);
  return answerBodyOnce(
    service,
    context,
    async (body, resourceId) => work(await contentOf(body), resourceId),
    limit,
  );
}

/** The same for a body that may not fit into memory. */
export async function answerBodyOnce(
  service: ServiceContext,
  context: Context,
  work: (body: ReceivedBody, resourceId: string) => Promise<Answer>,
  limit = service.bodyLimits.preview,
): Promise<Response> {
  const held = service.admission.body(tenantOf(context));
  try {
    return await service.bodies.receive(context, { limit, count: held }, async (body) => {
      const request = {
        key: context.req.header('idempotency-key'),
        fingerprint: body.fingerprint,
        access: accessOf(context),
      };
      const answer = await service.idempotency.run(request, (resourceId) => work(body, resourceId));
      return context.json(answer.body, answer.status);
    });
  } finally {
    held.release();
  }
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
