import { inspect } from 'node:util';
import { expect, test, vi } from 'vitest';
import { MartingaleError } from '../../src/contract/index.ts';
import { OptionError } from '../../src/util/option-error.ts';

class CallError extends MartingaleError {}
class LateCallError extends CallError {}

test('each class recognises its own errors and those of its subclasses', () => {
  const late = new LateCallError('late', 'late');
  expect([MartingaleError, CallError, LateCallError, OptionError].map((of) => of.isInstance(late))).toEqual([
    true,
    true,
    true,
    false,
  ]);
  expect(LateCallError.isInstance(new CallError('call', 'call'))).toBe(false);
  expect([null, undefined, 'late', new Error('late'), {}].some((value) => CallError.isInstance(value))).toBe(
    false,
  );
});

test('errors of another copy of the package are recognised by their class', async () => {
  vi.resetModules();
  const copy = {
    ...(await import('../../src/contract/error.ts')),
    ...(await import('../../src/util/option-error.ts')),
  };
  const option = new copy.OptionError('unknown_option', 'no such option', { option: 'colour' });
  expect(option).not.toBeInstanceOf(MartingaleError);
  expect([MartingaleError, OptionError, CallError].map((of) => of.isInstance(option))).toEqual([
    true,
    true,
    false,
  ]);
  expect(OptionError.isInstance(new copy.MartingaleError('call', 'call'))).toBe(false);
});

test('an option error contains the value but does not print it', () => {
  const error = new OptionError('unknown_option', 'createClient() has no option `api_key`.', {
    option: 'api_key',
    value: 'secret-word',
  });
  expect(error).toMatchObject({ code: 'unknown_option', option: 'api_key', value: 'secret-word' });
  expect(inspect(error) + JSON.stringify(error)).not.toContain('secret-word');
});
