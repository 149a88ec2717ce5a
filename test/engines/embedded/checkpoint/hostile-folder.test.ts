import { execFileSync } from 'node:child_process';
import { mkdir, readFile, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readCheckpoint } from '../../../../src/engines/embedded/checkpoint/read-checkpoint.ts';
import { inspectCheckpoint } from '../../../../src/engines/embedded/open-checkpoint.ts';
import { MartingaleError } from '../../../../src/index.ts';
import { temporaryFolder } from '../../../support/files.ts';
import { testSeed } from '../../../support/size.ts';
import { generateCheckpoint } from './generated.ts';

/** What reading a folder ends with: `read`, or the code and the message of its error. */
async function outcome(change: (folder: string) => Promise<unknown>): Promise<string> {
  const folder = await generateCheckpoint(await temporaryFolder(), 'qwen3');
  await change(folder);
  try {
    await inspectCheckpoint({ folder });
    await readCheckpoint(folder);
    return 'read';
  } catch (error) {
    if (MartingaleError.isInstance(error))
      return `${error.code} ${error.message.replaceAll(`${folder}/`, '')}`;
    throw error;
  }
}

const merge =
  (name: string, fields: Record<string, unknown>) =>
  async (folder: string): Promise<void> => {
    const path = join(folder, name);
    await writeFile(path, JSON.stringify({ ...JSON.parse(await readFile(path, 'utf8')), ...fields }));
  };
const write = (name: string, text: string) => (folder: string) => writeFile(join(folder, name), text);
const replace = (name: string, make: (path: string) => unknown) => async (folder: string) => {
  await rm(join(folder, name), { force: true });
  await make(join(folder, name));
};

const scaling = {
  rope_type: 'llama3',
  ...{ factor: 8, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 64 },
};

describe('a hostile or broken checkpoint is refused by file and field', () => {
  it.each<[Record<string, unknown>, string]>([
    [{ num_hidden_layers: 1e9 }, 'num_hidden_layers is 1000000000. It must be a whole number of 1 to 1024'],
    [{ max_position_embeddings: 1e12 }, 'max_position_embeddings is 1000000000000'],
    [{ vocab_size: 1e9 }, 'vocab_size is 1000000000'],
    [{ num_attention_heads: 1e9, num_key_value_heads: 1e9 }, 'num_attention_heads is 1000000000'],
    [{ head_dim: 1e9 }, 'head_dim is 1000000000'],
    [{ hidden_size: 2 ** 40 }, 'hidden_size is 1099511627776'],
    [{ intermediate_size: 2 ** 40 }, 'intermediate_size is 1099511627776'],
    [{ rms_norm_eps: 1e30 }, 'rms_norm_eps is 1e+30. It must be a number of 1e-12 to 1'],
    [{ rms_norm_eps: 1e-300 }, 'rms_norm_eps is 1e-300'],
    [{ rope_theta: 1e-10 }, 'rope_theta is 1e-10'],
    [{ rope_scaling: { ...scaling, factor: 1e-30 } }, 'rope_scaling.factor is 1e-30'],
    [
      { rope_scaling: { ...scaling, low_freq_factor: 4, high_freq_factor: 1 } },
      'rope_scaling.high_freq_factor is 1. It must be above low_freq_factor, 4',
    ],
  ])('a number that no model has: %j', async (fields, message) => {
    expect(await outcome(merge('config.json', fields))).toContain(`bad_checkpoint config.json: ${message}`);
  });

  const files = ['config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json'];
  it.each([...files, 'chat_template.jinja', 'generation_config.json'])('a pipe as %s', async (name) => {
    const found = await outcome(replace(name, (path) => execFileSync('mkfifo', [path])));
    expect(found).toContain(`${name} cannot be read: it is a named pipe, not a regular file`);
  });

  it.each([...files, 'chat_template.jinja'])('a folder or an endless device as %s', async (name) => {
    expect(await outcome(replace(name, (path) => mkdir(path)))).toContain(
      `${name} cannot be read: it is a folder`,
    );
    expect(await outcome(replace(name, (path) => symlink('/dev/zero', path)))).toContain(
      `${name} cannot be read: it is a device`,
    );
  });

  it.each([
    ['chat_template.jinja', 256 * 1024],
    ['config.json', 128 * 1024 * 1024],
    ['tokenizer.json', 128 * 1024 * 1024],
  ])('a %s of more than %i bytes', async (name, most) => {
    const found = await outcome(
      replace(name, async (path) => {
        await writeFile(path, '');
        await truncate(path, most + 1);
      }),
    );
    expect(found).toContain(`${name} cannot be read: it has ${most + 1} bytes; the maximum is ${most}`);
  });

  it('weights that are longer than the memory, in a file with holes', async () => {
    const found = await outcome(async (folder) => {
      const config = {
        hidden_size: 1 << 17,
        intermediate_size: 1 << 20,
        vocab_size: 1 << 22,
        num_hidden_layers: 1,
      };
      await merge('config.json', { ...config, tie_word_embeddings: true })(folder);
      const [width, mlp, heads, head] = [1 << 17, 1 << 20, 4, 8];
      const layer = 'model.layers.0';
      const shapes: [string, number[]][] = [
        ['model.embed_tokens.weight', [1 << 22, width]],
        [`${layer}.input_layernorm.weight`, [width]],
        [`${layer}.post_attention_layernorm.weight`, [width]],
        [`${layer}.self_attn.q_proj.weight`, [heads * head, width]],
        [`${layer}.self_attn.k_proj.weight`, [2 * head, width]],
        [`${layer}.self_attn.v_proj.weight`, [2 * head, width]],
        [`${layer}.self_attn.o_proj.weight`, [width, heads * head]],
        [`${layer}.mlp.gate_proj.weight`, [mlp, width]],
        [`${layer}.mlp.up_proj.weight`, [mlp, width]],
        [`${layer}.mlp.down_proj.weight`, [width, mlp]],
        [`${layer}.self_attn.q_norm.weight`, [head]],
        [`${layer}.self_attn.k_norm.weight`, [head]],
        ['model.norm.weight', [width]],
      ];
      let end = 0;
      const entries = shapes.map(([name, shape]) => {
        const start = end;
        end += 4 * shape.reduce((product, size) => product * size, 1);
        return [name, { dtype: 'F32', shape, data_offsets: [start, end] }];
      });
      const text = Buffer.from(JSON.stringify(Object.fromEntries(entries)));
      const length = Buffer.alloc(8);
      length.writeBigUInt64LE(BigInt(text.length));
      const path = join(folder, 'model.safetensors');
      await writeFile(path, Buffer.concat([length, text]));
      await truncate(path, 8 + text.length + end);
    });
    expect(found).toMatch(
      /^checkpoint_unsupported .*the weights need \d+\.\d GiB as float32, and this machine has/,
    );
  });

  it.each<[string, string]>([
    ['{{ messages[0].content', 'chat_template.jinja: the chat template cannot be used'],
    ['{% if %}', 'chat_template.jinja: the chat template cannot be used'],
    ["{{ 'x' | nothing }}", 'chat_template.jinja: the chat template cannot be used'],
    [
      '{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}',
      "cannot be used. The model's chat template refuses this conversation: it would run for more than 4194304 steps",
    ],
    ['{{ messages | tojson(indent=500000000) }}', 'it would make more than 16777216 characters'],
    ["{{ 'a' * 10**15 }}", 'it would make more than 16777216 characters'],
  ])('a template that is none: %s', async (template, message) => {
    expect(await outcome(write('chat_template.jinja', template))).toContain(message);
  });

  it.each<[string, unknown[], string]>([
    ['a text of one token', ['ab'], 'tokenizer.json: model.merges.0 is "ab"'],
    ['a number', [7], 'tokenizer.json: model.merges.0 is 7'],
    ['three tokens', [['a', 'b', 'c']], 'tokenizer.json: model.merges.0 is ["a","b","c"]'],
    [
      'tokens that are not there',
      ['a nothing-like-it'],
      'model.merges.0 is "a nothing-like-it". It must be two tokens',
    ],
  ])('merges of %s', async (_, merges, message) => {
    const found = await outcome(async (folder) => {
      const path = join(folder, 'tokenizer.json');
      const file = JSON.parse(await readFile(path, 'utf8'));
      await writeFile(path, JSON.stringify({ ...file, model: { ...file.model, merges } }));
    });
    expect(found).toContain(message);
  });
});

it.each(['qwen3', 'gemma3', 'lfm2', 'granite', 'mistral'] as const)(
  'any value of any field of the configuration is read or refused by name: %s',
  async (family) => {
    const folder = await generateCheckpoint(await temporaryFolder(), family);
    const path = join(folder, 'config.json');
    const config: Record<string, unknown> = JSON.parse(await readFile(path, 'utf8'));
    const values = fc.oneof(
      fc.double(),
      fc.integer(),
      fc.constantFrom<unknown>(2 ** 31, 2 ** 53, 1e308, -0, null, true, '', {}, [], [[]], {
        rope_type: 'llama3',
      }),
    );
    const fields = fc.constantFrom(
      ...Object.keys(config),
      'rope_scaling',
      'rope_parameters',
      'eos_token_id',
      'layer_types',
      ...(family === 'gemma3' ? ['sliding_window_pattern', 'final_logit_softcapping'] : []),
      ...(family === 'lfm2' ? ['full_attn_idxs', 'block_ff_dim', 'block_multiple_of', 'conv_bias'] : []),
    );
    await fc.assert(
      fc.asyncProperty(fields, values, async (field, value) => {
        await writeFile(path, JSON.stringify({ ...config, [field]: value }));
        await inspectCheckpoint({ folder })
          .then(() => readCheckpoint(folder))
          .catch((error: unknown) => {
            if (!MartingaleError.isInstance(error)) throw error;
            expect(error.message).toContain(folder);
          });
      }),
      { seed: testSeed, numRuns: 60 },
    );
  },
);
