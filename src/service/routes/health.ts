import type { Hono } from 'hono';
import type { Health, SystemCheck } from '../../contract/index.ts';
import type { ServiceContext } from '../context.ts';
import { messageOf, ServiceError } from '../errors.ts';

export function healthRoutes(app: Hono, service: ServiceContext): void {
  app.get('/v1/health', (context) => context.json({ status: 'ok' } satisfies Health));

  app.get('/v1/system-check', async (context) => {
    const [api, database, training_queue, inference_queue] = await Promise.all([
      check(async () => {}),
      check(() => service.store.check()),
      check(() => service.queue.check()),
      check(async () => {
        if (service.engine.baseModels.length === 0)
          throw new ServiceError(
            503,
            'no_base_model',
            `The engine ${service.engine.name} has no base model.`,
          );
      }),
    ]);
    const checks: SystemCheck = { api, database, training_queue, inference_queue };
    if (Object.values(checks).every(({ success }) => success)) return context.json(checks);
    return context.json(checks, 503, { 'retry-after': '5' });
  });
}

async function check(work: () => Promise<void>): Promise<SystemCheck['api']> {
  const began = performance.now();
  try {
    await work();
    return { success: true, duration: performance.now() - began, error: null };
  } catch (error) {
    return { success: false, duration: performance.now() - began, error: messageOf(error) };
  }
}
