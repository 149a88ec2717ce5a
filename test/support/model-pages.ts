import type { RequestListener } from 'node:http';

const page = (data: object[]) => ({ data, has_more: false, first_id: '', last_id: '' });

const model = {
  id: '4f1c0000-0000-4000-8000-000000000000',
  entity: 'a',
  project: 'shop',
  name: 'desk',
  base_model: 'tiny',
};

/** A service of another maker: its model `a/shop/desk` has no checkpoints, but a deletion of steps 0 and 7 finds one. */
export const withoutCheckpoints: RequestListener = ({ method, url = '' }, response) => {
  const body =
    method === 'DELETE'
      ? { deleted_count: 1, not_found_steps: [7] }
      : page(url.includes('/checkpoints') ? [] : [model]);
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
};
