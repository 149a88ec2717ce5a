import { z } from 'zod';
import { positionError } from '../errors.ts';
import { digest, type KeyFunction, keyWith } from './scenario-key.ts';
import {
  breathe,
  type Cursor,
  drawsPerBreath,
  readState,
  type Stage,
  type StageDescription,
} from './stage.ts';

/** Begins a pass over generated scenarios. `epoch` counts the passes from 0; use it as a seed for random scenarios. */
export type Generate<Scenario> = (context: { epoch: number }) => Iterable<Scenario> | AsyncIterable<Scenario>;

const stateSchema = z.object({ drawn: z.int().nonnegative(), keys: z.string() });

/** Scenarios from a function. Seeking a position runs the function again. */
export class GeneratorStage<Scenario> implements Stage<Scenario> {
  readonly extent = 'unknown';
  readonly size = null;
  readonly learns = false;
  readonly #generate: Generate<Scenario>;
  readonly #key: KeyFunction<Scenario> | undefined;

  constructor(generate: Generate<Scenario>, key: KeyFunction<Scenario> | undefined) {
    this.#generate = generate;
    this.#key = key;
  }

  describe(): StageDescription {
    return { kind: 'generate' };
  }

  open(epoch: number): Cursor<Scenario> {
    let iterator: Iterator<Scenario> | AsyncIterator<Scenario> | undefined;
    let drawn = 0;
    let keys = '';
    const next = async () => {
      iterator ??= iterate(this.#generate({ epoch }));
      const result = await iterator.next();
      if (result.done) return null;
      const key = keyWith(result.value, this.#key);
      drawn++;
      keys = digest(`${keys} ${key}`).slice(0, 20);
      return { scenario: result.value, key };
    };
    const close = async () => {
      await iterator?.return?.();
    };
    return {
      next,
      state: () => ({ drawn, keys }),
      restore: async (state) => {
        const saved = readState('generate', stateSchema, state);
        if (drawn > saved.drawn) {
          await close();
          iterator = undefined;
          drawn = 0;
          keys = '';
        }
        while (drawn < saved.drawn) {
          if ((await next()) === null) break;
          if (drawn % drawsPerBreath === 0) await breathe();
        }
        if (drawn === saved.drawn && keys === saved.keys) return;
        throw positionError(
          `The generator was run again up to scenario ${saved.drawn} and did not give the same scenarios ` +
            `(it gave ${drawn}). A generator that can be resumed gives the same ones each time: draw what is ` +
            'random from a seed of your own and `epoch`.',
        );
      },
      observe: () => undefined,
      reports: () => [],
      close,
    };
  }
}

function iterate<Scenario>(
  scenarios: Iterable<Scenario> | AsyncIterable<Scenario>,
): Iterator<Scenario> | AsyncIterator<Scenario> {
  return Symbol.asyncIterator in scenarios ? scenarios[Symbol.asyncIterator]() : scenarios[Symbol.iterator]();
}
