import type { Health, SystemCheck } from '../../contract/index.ts';
import { SharedWork } from '../../util/shared-work.ts';
import type { ServiceContext } from '../context.ts';
import { messageOf, ServiceError } from '../errors.ts';
import { machineFaultOf } from '../faults.ts';
import { operations } from '../openapi/operations.ts';
import { checkDisk } from '../store/durable-files.ts';
import type { Register } from './route.ts';

export function healthRoutes(on: Register, service: ServiceContext): void {
  // Concurrent callers share one run, so that the disk is written once for all of them.
  const checks = new SharedWork<'storage', void>();
  const checkStorage = async () => {
    await service.store.check();
    await checkDisk(service.files.absolute('write-check'));
  };

  on(operations.health, (context) => context.json({ status: 'ok' } satisfies Health));

  on(operations.systemCheck, async (context) => {
    const [api, database, training_queue, inference_queue] = await Promise.all([
      check(async () => {}),
      check(() => checks.join('storage', checkStorage, undefined)),
      check(() => service.queue.check()),
      check(async () => {
        if (service.engine.baseModels.length === 0)
          throw new ServiceError(
            503,
            'no_base_model',
            `The engine ${service.engine.name} has no base model.`,
          );
        await service.engine.check?.();
      }),
    ]);
    const { replies, refused } = service.admission;
    const results: SystemCheck = {
      api,
      database,
      training_queue,
      inference_queue: { ...inference_queue, in_hand: replies.taken, oldest_ms: replies.oldestMs, refused },
    };
    if (Object.values(results).every(({ success }) => success)) return context.json(results);
    return context.json(results, 503, { 'retry-after': '5' });
  });
}

async function check(work: () => Promise<void>): Promise<SystemCheck['api']> {
  const startedAt = performance.now();
  try {
    await work();
    return { success: true, duration: performance.now() - startedAt, error: null };
  } catch (error) {
    return { success: false, duration: performance.now() - startedAt, error: reasonOf(error) };
  }
}

/** The raw message of a machine fault: it names what is missing. */
function reasonOf(error: unknown): string {
  const fault = machineFaultOf(error);
  return fault ? `${fault.code}: ${messageOf(error)}` : messageOf(error);
}
