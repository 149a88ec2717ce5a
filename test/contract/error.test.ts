import { join } from 'node:path';
import { inspect } from 'node:util';
import { build } from 'esbuild';
import { expect, test } from 'vitest';
import { MartingaleError } from '../../src/contract/index.ts';
import { OptionError } from '../../src/util/option-error.ts';
import { temporaryFolder } from '../support/files.ts';
import { root } from '../support/programs.ts';

type Errors = typeof import('../../src/contract/error.ts') & typeof import('../../src/util/option-error.ts');

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
  const outfile = join(await temporaryFolder(), 'copy.mjs');
  const contents = ['contract/error', 'util/option-error'].map((name) => `export * from './src/${name}.ts';`);
  const stdin = { contents: contents.join('\n'), resolveDir: root };
  await build({ stdin, outfile, bundle: true, format: 'esm', platform: 'node', packages: 'external' });
  const copy: Errors = await import(outfile);
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
