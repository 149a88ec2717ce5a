import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { mayHaveActed } from '../../../src/client/index.ts';
import { type NamedFault, namedFaults } from './named-faults.ts';
import { type Operation, operations } from './operations.ts';
import { startPlainService } from './plain-service.ts';
import { surprises, type Trial, tryOut } from './try-out.ts';
import { World } from './world.ts';

/** Operations that create something, on a service that would create it again. */
const making = operations.filter(({ name }) =>
  ['create model', 'log', 'create RL job', 'create SFT job'].includes(name),
);

let world: World;
let plain: Awaited<ReturnType<typeof startPlainService>>;
const done: Trial[] = [];
beforeAll(async () => {
  world = await World.start();
  plain = await startPlainService(world.service.url);
});
afterAll(async () => {
  await plain?.close();
  await world?.close();
});

const isLeftOut = (name: string) =>
  // Such a service does twice what the network sends twice.
  /^request twice/.test(name) ||
  // To the client these look like silence.
  ['reply delayed by a minute', 'reply dripping for ever'].includes(name);
const faults = namedFaults.filter(
  ({ name, applies = () => true }) => !isLeftOut(name) && making.some(applies),
);

/** As for sampling, which is not repeated either, with three differences. */
function expectedOf(operation: Operation, fault: NamedFault): string {
  // The answer may be that of a proxy which has lost the service.
  if (fault.name === '503') return 'service_failed';
  // The upload before it meets the fault and is repeated.
  if (fault.name === 'connection reset when it is made' && operation.before) return 'succeeds';
  // It is read again elsewhere until there is an answer.
  const openBody =
    operation.openBody &&
    !['JSON that is none', 'JSON cut short, with the right status'].includes(fault.name);
  return fault.once({ ...operation, kind: 'sampling', openBody });
}

describe.each(faults)('$name', (fault) => {
  test('creates nothing twice on a service without idempotency keys', async () => {
    const options = { world, fault, times: 1, target: plain.url, client: { dialect: 'deployed' } } as const;
    const trials = await Promise.all(making.map((operation) => tryOut({ ...options, operation })));
    done.push(...trials);
    const expected = (operation: Operation) => expectedOf(operation, fault);
    expect(surprises(trials, expected)).toEqual([]);
  }, 60_000);
});

test('what succeeded was created once, and what failed at most once, with an error that says which', async () => {
  await world.closeService();
  const counts = world.effects(done);
  const wrong = done.flatMap(({ operation, fault, result }, index) => {
    const count = counts[index] ?? Number.NaN;
    const isRight =
      result.status === 'fulfilled'
        ? count === 1
        : count === 0 || (count === 1 && mayHaveActed(result.reason));
    return isRight ? [] : [`${operation.name}, ${fault.name}: ${count}`];
  });
  expect(done.length).toBeGreaterThan(100);
  expect(wrong).toEqual([]);
});
