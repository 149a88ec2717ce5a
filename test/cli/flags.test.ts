import { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import {
  addCheckpointFlags,
  type CheckpointFlags,
  checkpointArguments,
  checkpointsOf,
} from '../../src/cli/checkpoint-flags.ts';
import { anyNumber, namedNumbers, serviceUrl } from '../../src/cli/flags.ts';
import { command } from '../support/command.ts';

describe('a flag that gives numbers to names', () => {
  const parse = namedNumbers(['replies', 'jobs']);

  it('accumulates over repeats, and the last value wins', () => {
    expect(parse('jobs=3', parse('replies=20', parse('jobs=1', {})))).toEqual({ replies: 20, jobs: 3 });
  });

  it.each(['jobs', 'jobs=', 'jobs=0', 'jobs=-1', 'jobs=1.5', 'jobs=1=2', 'job=1', 'toString=1'])(
    'refuses %s',
    (text) => {
      expect(() => parse(text, {})).toThrow('It must be');
    },
  );
});

describe('the address of a service', () => {
  it.each([
    ['127.0.0.1:8000', 'such as http://127.0.0.1:8000.'],
    ['localhost:8000', 'such as http://localhost:8000.'],
    ['my-host', 'such as http://my-host.'],
    ['ftp://my-host', 'such as http://127.0.0.1:8000.'],
    ['', 'such as http://127.0.0.1:8000.'],
  ])('"%s" is refused with an address that may be meant', (text, guess) => {
    expect(() => serviceUrl(text)).toThrow(guess);
  });
});

it.each(['', 'abc', '-1', '2.5', 'NaN', 'Infinity'])('a number from 0 to 2 is not "%s"', (text) => {
  expect(anyNumber(0, 2)('1.5')).toBe(1.5);
  expect(() => anyNumber(0, 2)(text)).toThrow('It must be a number from 0 to 2.');
});

it('a command that there is not is answered with the one that is meant, not with all of them', async () => {
  const { stderr, code } = await command(['srve']);
  expect(stderr.trim().split(/\n+/)).toEqual([
    "error: unknown command 'srve'",
    '(Did you mean serve?)',
    '(martingale --help lists the commands)',
  ]);
  expect(code).toBe(1);
});

describe('the flags of checkpoints', () => {
  const parse = (...flags: string[]) =>
    addCheckpointFlags(new Command('any')).parse(flags, { from: 'user' }).opts<CheckpointFlags>();

  it('can be passed on as they were', () => {
    const flags = [
      '--checkpoint',
      './a b',
      '--checkpoint',
      'hf:x/y@main',
      '--lora-rank',
      '4',
      '--lora-alpha',
      '8',
    ];
    const more = [
      '--lora-targets',
      'q_proj,v_proj',
      '--context',
      '512',
      '--training-memory',
      '1.5',
      '--device',
      'webgpu',
    ];
    const text = ` --checkpoint './a b' ${[...flags, ...more].slice(2).join(' ')}`;
    expect(checkpointArguments(parse(...flags, ...more))).toBe(text);
    expect(checkpointArguments(parse())).toBe('');
  });

  it('begin one checkpoint with an adapter', () => {
    const flags = ['--checkpoint', 'a', '--adapter', './my adapter'];
    expect(checkpointsOf(parse(...flags))).toMatchObject([{ folder: 'a', adapter: './my adapter' }]);
    expect(checkpointArguments(parse(...flags))).toBe(" --checkpoint a --adapter './my adapter'");
    expect(() => checkpointsOf(parse(...flags, '--checkpoint', 'b'))).toThrow(/one --checkpoint/);
    expect(() => checkpointsOf(parse('--adapter', 'a'))).toThrow(/no checkpoint for --adapter a/);
  });

  it('are refused without a checkpoint', () => {
    expect(checkpointsOf(parse())).toEqual([]);
    expect(() => checkpointsOf(parse('--lora-rank', '4'))).toThrow(
      /no checkpoint for --lora-rank 4 to act on/,
    );
  });
});
