import { execFileSync } from 'node:child_process';
import { readFile, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readCheckpoint } from '../../../../../src/engines/embedded/checkpoint/read-checkpoint.ts';
import { inspectCheckpoint } from '../../../../../src/engines/embedded/open-checkpoint.ts';
import { MartingaleError } from '../../../../../src/index.ts';
import { temporaryFolder } from '../../../../support/files.ts';
import { testSeed } from '../../../../support/size.ts';

const read = (name: string) => readFile(fileURLToPath(new URL(`fixtures/${name}.gguf`, import.meta.url)));
const [fixture, gemma3, lfm2] = await Promise.all([read('qwen3'), read('gemma3'), read('lfm2')]);

const u32 = (value: number) => Buffer.from(Uint32Array.of(value).buffer);
const u64 = (value: number | bigint) => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);
const text = (value: string) => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);
const number = (value: number) => Buffer.concat([u32(4), u32(value)]);
const word = (value: string) => Buffer.concat([u32(8), text(value)]);

/** A file by the format's description. A field is its name and its value with the type before it. */
function file(
  fields: readonly (readonly [string, Buffer])[],
  tensors: readonly Buffer[] = [],
  { version = 3, count = fields.length, tensorCount = tensors.length } = {},
): Buffer {
  return Buffer.concat([
    ...[Buffer.from('GGUF'), u32(version), u64(tensorCount), u64(count)],
    ...fields.flatMap(([name, value]) => [text(name), value]),
    ...tensors,
  ]);
}

const tensor = (
  name: string,
  dimensions: readonly (number | bigint)[],
  type: number,
  offset: number | bigint,
) => Buffer.concat([text(name), u32(dimensions.length), ...dimensions.map(u64), u32(type), u64(offset)]);

/** What reading a file ends with: `read`, or the code and the message of its error. */
async function outcome(path: string): Promise<string> {
  try {
    await inspectCheckpoint({ folder: path });
    await readCheckpoint(path);
    return 'read';
  } catch (error) {
    if (MartingaleError.isInstance(error)) return `${error.code} ${error.message.replaceAll(path, 'x.gguf')}`;
    throw error;
  }
}

async function written(content: Uint8Array): Promise<string> {
  const path = join(await temporaryFolder(), 'x.gguf');
  await writeFile(path, content);
  return path;
}

/** The fixture with the value of a field replaced. Both have the same length. */
function withField(name: string, type: number, value: Buffer): Buffer {
  const changed = Buffer.from(fixture);
  const at = changed.indexOf(Buffer.concat([text(name), u32(type)]));
  expect(at).toBeGreaterThan(0);
  value.copy(changed, at + 8 + name.length + 4);
  return changed;
}

describe('a hostile or broken GGUF file is refused by field and value', () => {
  it.each<[string, Buffer, string]>([
    ['nothing', Buffer.alloc(0), 'x.gguf is cut off in its header, at its beginning'],
    [
      'another format',
      Buffer.from('PK\u0003\u0004 and more of it'),
      'x.gguf is not a GGUF file, which begins with GGUF',
    ],
    [
      'an old version',
      file([], [], { version: 1 }),
      'x.gguf has version 1 of the format. martingale reads 2 and 3',
    ],
    ['big-endian order', file([], [], { version: 0x03000000 }), 'has version 50331648 of the format'],
    [
      'too many fields',
      file([], [], { count: 2 ** 40 }),
      'has 1099511627776 as number of fields, more than 65536',
    ],
    [
      'more fields than bytes',
      file([], [], { count: 1000 }),
      'has 1000 as number of fields, more than the file has room for',
    ],
    [
      'too many tensors',
      file([], [], { tensorCount: 2 ** 40 }),
      'has 1099511627776 as number of tensors, more than 262144',
    ],
    [
      'a huge text',
      file([['general.name', Buffer.concat([u32(8), u64(2n ** 63n)])]]),
      'has 9223372036854775808 as the length of a text in field general.name, which is too large',
    ],
    [
      'a text beyond the file',
      file([['general.name', Buffer.concat([u32(8), u64(5000)])]]),
      'has a text of 5000 bytes in field general.name, longer than the file',
    ],
    [
      'a huge list',
      file([['a.b', Buffer.concat([u32(9), u32(4), u64(2 ** 40)])]]),
      'has 1099511627776 as length of a list in field a.b, more than 4194304',
    ],
    [
      'a list of lists of lists',
      file([
        [
          'a.b',
          Buffer.concat([
            u32(9),
            ...Array.from({ length: 5 }, () => [u32(9), u64(1)]).flat(),
            Buffer.alloc(64),
          ]),
        ],
      ]),
      'has lists in lists, deeper than 4, in field a.b',
    ],
    ['an unknown type', file([['a.b', u32(77)]]), 'has field a.b of the unknown type 77'],
    [
      'a field twice',
      file([
        ['a.b', number(1)],
        ['a.b', number(2)],
      ]),
      'has field a.b twice',
    ],
    ['alignment 0', file([['general.alignment', number(0)]]), 'has general.alignment 0. It must be'],
    [
      'five dimensions',
      file([], [tensor('t', [1, 1, 1, 1, 1], 0, 0)]),
      'gives tensor t 5 dimensions. The maximum is 4',
    ],
    [
      'a huge tensor',
      file([], [tensor('t', [2n ** 40n, 2n ** 40n], 0, 0)]),
      'has tensor t of [1099511627776,1099511627776], more numbers than any file',
    ],
    [
      'a type of numbers that none is',
      file([], [tensor('t', [32], 5, 0)]),
      'has tensor t of the unknown type 5',
    ],
    [
      'half a block',
      file([], [tensor('t', [40], 8, 0)]),
      'has tensor t with rows of 40, but Q8_0 has blocks of 32',
    ],
    [
      'an odd offset',
      file([], [tensor('t', [1], 0, 7)]),
      'has offset 7 of tensor t, which is no multiple of general.alignment, 32',
    ],
    [
      'numbers beyond the file',
      file([], [tensor('t', [32], 0, 4096)]),
      'is cut off in tensor t, which ends at byte 4288: the file has 57',
    ],
    [
      'an offset of 2^63',
      file([], [tensor('t', [32], 0, 2n ** 63n)]),
      'has 9223372036854775808 as its offset in tensor t, which is too large',
    ],
    ['a tensor twice', file([], [tensor('t', [0], 0, 0), tensor('t', [0], 0, 0)]), 'has tensor t twice'],
    ['no architecture', file([]), 'x.gguf has no general.architecture. martingale runs llama, qwen2, qwen3'],
    [
      'another architecture',
      file([['general.architecture', word('gemma3n')]]),
      'general.architecture is "gemma3n". martingale runs',
    ],
    [
      'the name of a property of every object as its architecture',
      Buffer.concat([
        file([['general.architecture', word('constructor')]], [tensor('blk.0.attn_q.weight', [0], 0, 0)]),
        Buffer.alloc(32),
      ]),
      'general.architecture is "constructor". martingale runs',
    ],
    [
      'an adapter',
      file([['general.type', word('adapter')]]),
      'general.type is "adapter". It must be the file of a whole model',
    ],
    [
      'a number as a text',
      file([['general.architecture', number(3)]]),
      'general.architecture is 3. It must be a text',
    ],
    [
      'another rotary scaling of Gemma',
      file([
        ['general.architecture', word('gemma3')],
        ['gemma3.rope.scaling.type', word('yarn')],
      ]),
      'gemma3.rope.scaling.type is "yarn". martingale runs rotary positions of Gemma 3 without scaling, or with linear scaling',
    ],
    [
      'an LFM2 that sees later tokens',
      file([
        ['general.architecture', word('lfm2')],
        ['lfm2.attention.causal', Buffer.from([7, 0, 0, 0, 0])],
      ]),
      'lfm2.attention.causal is false. martingale runs models that see earlier tokens only',
    ],
    [
      'an LFM2 with experts',
      file([['general.architecture', word('lfm2moe')]]),
      'general.architecture is "lfm2moe". martingale runs llama, qwen2, qwen3, gemma3, lfm2',
    ],
    [
      'another tokenizer',
      file([
        ['general.architecture', word('llama')],
        ['tokenizer.ggml.model', word('llama')],
      ]),
      'x.gguf has no tokenizer.ggml.tokens. It must be a list of texts',
    ],
  ])('%s', async (_, content, message) => {
    expect(await outcome(await written(content))).toContain(message);
  });

  it.each<[string, number, Buffer, string]>([
    [
      'qwen3.block_count',
      4,
      u32(1e9),
      'num_hidden_layers is 1000000000. It must be a whole number of 1 to 1024',
    ],
    ['qwen3.block_count', 4, u32(3), 'no tensor model.layers.2.input_layernorm.weight'],
    ['qwen3.attention.head_count', 4, u32(0), 'num_attention_heads is 0'],
    [
      'qwen3.attention.head_count',
      4,
      u32(8),
      'tensor model.layers.0.self_attn.q_proj.weight is [32,32]. It must be [64,32]',
    ],
    [
      'qwen3.attention.value_length',
      4,
      u32(16),
      'qwen3.attention.value_length is 16. Keys and values must have the same width, 8',
    ],
    ['qwen3.context_length', 4, u32(2 ** 31), 'max_position_embeddings is 2147483648'],
    ['tokenizer.ggml.eos_token_id', 4, u32(4000), 'tokenizer.ggml.eos_token_id is 4000. It must be below'],
    [
      'tokenizer.ggml.model',
      8,
      text('gpt3'),
      'tokenizer.ggml.model is "gpt3". martingale reads byte-level BPE',
    ],
    ['tokenizer.ggml.pre', 8, text('qwen9'), 'tokenizer.ggml.pre is "qwen9". martingale reads llama-bpe'],
    ['general.architecture', 8, text('qwen9'), 'general.architecture is "qwen9"'],
  ])('%s of another value', async (name, type, value, message) => {
    expect(await outcome(await written(withField(name, type, value)))).toContain(message);
  });

  it('a file that is cut off anywhere', async () => {
    const path = await written(fixture);
    expect(await outcome(path)).toBe('read');
    for (const length of [fixture.length - 1, 60_000, 9000, 700, 24, 10, 3]) {
      await truncate(path, length);
      expect(await outcome(path)).toMatch(/^bad_checkpoint x\.gguf (is cut off|has)/);
    }
  });

  it('a pipe, a folder, or nothing', async () => {
    const path = join(await temporaryFolder(), 'x.gguf');
    expect(await outcome(path)).toBe('bad_checkpoint x.gguf does not exist. Give the path of a GGUF file.');
    execFileSync('mkfifo', [path]);
    expect(await outcome(path)).toBe(
      'bad_checkpoint x.gguf cannot be read: it is a named pipe, not a regular file',
    );
  });

  it.each([
    ['qwen3', fixture],
    ['gemma3', gemma3],
    ['lfm2', lfm2],
  ])('any changed bytes of the header: %s', async (_, original) => {
    const path = await written(fixture);
    const place = fc.integer({ min: 0, max: 24_000 });
    await fc.assert(
      fc.asyncProperty(place, fc.uint8Array({ minLength: 1, maxLength: 9 }), async (at, bytes) => {
        const changed = Buffer.from(original);
        changed.set(bytes, at);
        await writeFile(path, changed);
        // Whatever it is, it is read, or refused in words.
        expect(await outcome(path)).toMatch(/^(read$|bad_checkpoint |checkpoint_unsupported )/);
      }),
      { seed: testSeed, numRuns: 150 },
    );
  });
});
