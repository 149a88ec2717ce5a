import { z } from 'zod';
import { sha256 } from '../../util/json.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { positionError } from '../errors.ts';
import { type KeyFunction, keyWith } from './scenario-key.ts';
import { type Cursor, readState, type Stage } from './stage.ts';

/** Begins a pass over generated scenarios. `epoch` counts the passes from 0; use it as a seed for random scenarios. */
export type Generate<Scenario> = (context: { epoch: number }) => Iterable<Scenario> | AsyncIterable<Scenario>;

const stateSchema = z.object({ drawn: z.int().nonnegative(), keys: z.string() });

/** Scenarios from a function. Seeking a position runs the function again. */
export function generatorStage<Scenario>(
  generate: Generate<Scenario>,
  keyFunction: KeyFunction<Scenario> | undefined,
): Stage<Scenario> {
  const open = (epoch: number): Cursor<Scenario> => {
    let iterator: Iterator<Scenario> | AsyncIterator<Scenario> | undefined;
    let drawn = 0;
    let keys = '';
    const next = async () => {
      iterator ??= iterate(generate({ epoch }));
      const result = await iterator.next();
      if (result.done) return null;
      const key = keyWith(result.value, keyFunction);
      drawn++;
      keys = sha256(`${keys} ${key}`).slice(0, 20);
      return { scenario: result.value, key };
    };
    const close = async () => {
      await iterator?.return?.();
    };
    const restore = async (state: unknown) => {
      const saved = readState('generate', stateSchema, state);
      if (drawn > saved.drawn) {
        await close();
        iterator = undefined;
        drawn = 0;
        keys = '';
      }
      const slices = new TimeSlices();
      while (drawn < saved.drawn) {
        if ((await next()) === null) break;
        if (slices.over) await slices.pause();
      }
      if (drawn === saved.drawn && keys === saved.keys) return;
      throw positionError(
        `The generator ran again up to scenario ${saved.drawn} and generated other scenarios (${drawn} of them). To ` +
          'resume, a generator must give the same scenarios each time: take random numbers from a fixed seed and ' +
          '`epoch`.',
      );
    };
    return { next, state: () => ({ drawn, keys }), restore, close };
  };
  return { extent: 'unknown', size: null, learns: false, describe: () => ({ kind: 'generate' }), open };
}

function iterate<Scenario>(
  scenarios: Iterable<Scenario> | AsyncIterable<Scenario>,
): Iterator<Scenario> | AsyncIterator<Scenario> {
  return Symbol.asyncIterator in scenarios ? scenarios[Symbol.asyncIterator]() : scenarios[Symbol.iterator]();
}
