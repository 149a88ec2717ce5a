import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type NamedFault, namedFaults } from './named-faults.ts';
import { type Operation, operations } from './operations.ts';
import { surprises, type Trial, tryOut } from './try-out.ts';
import { World } from './world.ts';

let world: World;
/** A world whose jobs never begin. */
let held: World;
const rejections: unknown[] = [];
const onRejection = (reason: unknown) => rejections.push(reason);
beforeAll(async () => {
  process.on('unhandledRejection', onRejection);
  [world, held] = await Promise.all([World.start(), World.startHeld()]);
});
afterAll(async () => {
  process.off('unhandledRejection', onRejection);
  await Promise.all([world?.close(), held?.close()]);
});

/** Trials with an effect that the databases show in the end. */
const done: Trial[] = [];

const placeOf = ({ name }: Operation) => (name === 'cancel job' ? held : world);

const tryAll = (fault: NamedFault, those: readonly Operation[], times: number) =>
  Promise.all(those.map((operation) => tryOut({ world: placeOf(operation), operation, fault, times })));

describe.each(namedFaults)('$name', (fault) => {
  const applicable = operations.filter((operation) => fault.applies?.(operation) ?? true);

  test('once', async () => {
    const trials = await tryAll(fault, applicable, 1);
    expect(surprises(trials, fault.once)).toEqual([]);
    done.push(...trials.filter(({ result }) => result.status === 'fulfilled'));
    for (const { operation, subject } of trials) {
      if (operation.kind === 'sampling')
        expect(world.samples(subject.seed)).toBeLessThanOrEqual(fault.mostSamples ?? 1);
    }
  }, 60_000);

  const { always } = fault;
  if (!always) return;
  test('every time', { tags: ['long'] }, async () => {
    const trials = await tryAll(fault, applicable, Number.POSITIVE_INFINITY);
    expect(surprises(trials, always)).toEqual([]);
  });
});

test('what succeeded was done exactly once, and no promise was left unawaited', async () => {
  await Promise.all([world.closeService(), held.closeService()]);
  for (const place of [world, held]) {
    const trials = done.filter(({ operation }) => operation.effect && placeOf(operation) === place);
    const counts = place.effects(trials);
    expect(trials.length).toBeGreaterThan(10);
    expect(trials.map(({ operation, fault }, index) => [operation.name, fault.name, counts[index]])).toEqual(
      trials.map(({ operation, fault }) => [operation.name, fault.name, 1]),
    );
  }
  expect(rejections).toEqual([]);
});
