import { expect, test } from 'vitest';
import { OptionError } from '../../src/util/option-error.ts';
import { checkOptionNames, type OptionNames } from '../../src/util/option-names.ts';

interface Options {
  steps: number;
  rolloutTimeoutMs?: number;
  groupTimeoutMs?: number;
  learn?: { learning_rate?: number } | ((step: number) => { learning_rate?: number });
  validation?: { everySteps?: number; temperature?: number };
  handle?: Handle | { name: string };
}

class Handle {
  readonly anything = 1;
}

const names = {
  steps: true,
  rolloutTimeoutMs: true,
  groupTimeoutMs: true,
  learn: { learning_rate: true },
  validation: { everySteps: true, temperature: true },
  handle: { name: true },
} satisfies OptionNames<Options>;

function refused(given: object): OptionError {
  try {
    checkOptionNames('learn()', given, names);
  } catch (error) {
    if (OptionError.isInstance(error) && error instanceof OptionError) return error;
  }
  throw new Error('nothing was refused');
}

test.each([
  ['a slip', { step: 1 }, ['steps']],
  ['a swap of letters', { setps: 1 }, ['steps']],
  ['another way to join words', { rollout_timeout_ms: 1 }, ['rolloutTimeoutMs']],
  ['a part of a name', { timeoutMs: 1 }, ['rolloutTimeoutMs', 'groupTimeoutMs']],
  ['a name with more in it', { maxSteps: 1 }, ['steps']],
  ['an option of an inner object', { learningRate: 1 }, ['learn: { learning_rate }']],
  ['a slip in an inner object', { validation: { everyStep: 1 } }, ['validation.everySteps']],
  ['an option of the outer object', { validation: { rolloutTimeoutMs: 1 } }, ['rolloutTimeoutMs']],
  ['nothing near', { colour: 1 }, []],
])('%s: the most similar names are suggested', (_, given, nearest) => {
  const error = refused(given);
  const [, asked] = / Did you mean (.*)\?/.exec(error.message) ?? [];
  expect(asked?.split(' or ') ?? []).toEqual(nearest.map((option) => `\`${option}\``));
  expect(error.code).toBe('unknown_option');
});

test('the message names the function, the option and the most similar one, and lists all options if they are few', () => {
  expect(refused({ learningRate: 1 }).message).toBe(
    'learn() has no option `learningRate`. Did you mean `learn: { learning_rate }`? It has: steps, rolloutTimeoutMs, ' +
      'groupTimeoutMs, learn, validation, handle.',
  );
  expect(refused({ validation: { everyStep: 2 } }).message).toBe(
    'learn() has no option `validation.everyStep`. Did you mean `validation.everySteps`? `validation` has: everySteps, ' +
      'temperature.',
  );
});

test('unknown options are refused even if they are undefined, and so are names of Object.prototype', () => {
  expect(refused({ steps: 1, colour: undefined }).option).toBe('colour');
  expect(refused({ steps: 1, toString: 1 }).option).toBe('toString');
});

test('known options, functions, instances and primitive values are accepted', () => {
  for (const given of [
    { steps: 1, learn: () => ({ learning_rate: 1 }), validation: undefined },
    { steps: 1, handle: new Handle(), learn: null },
    { steps: 1, handle: { name: 'a' }, validation: [1] },
  ])
    expect(() => checkOptionNames('learn()', given, names)).not.toThrow();
});

test('names that are not complete do not compile', () => {
  const { validation: _, ...some } = names;
  // @ts-expect-error -- `validation` is missing
  const missing = some satisfies OptionNames<Options>;
  // @ts-expect-error -- there is no `colour`
  const more = { ...names, colour: true } satisfies OptionNames<Options>;
  expect([missing, more]).toHaveLength(2);
});
