import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  type Adapter,
  adapterTensors,
  readAdapter,
} from '../../../../src/engines/embedded/checkpoint/adapter.ts';
import { readConfig } from '../../../../src/engines/embedded/checkpoint/config.ts';
import { writeMerged } from '../../../../src/engines/embedded/checkpoint/merge.ts';
import { readCheckpoint } from '../../../../src/engines/embedded/checkpoint/read-checkpoint.ts';
import { allProjections } from '../../../../src/engines/embedded/checkpoint/tensors.ts';
import { temporaryFolder } from '../../../support/files.ts';
import { writeAdapter } from './adapter-folder.ts';
import {
  type FixtureName,
  fixtureFolder,
  fixtureNames,
  readFixtureTensors,
  readReference,
} from './reference.ts';

const readFixtureAdapter = async (name: FixtureName) => {
  const folder = fixtureFolder(name);
  const { architecture } = readConfig(folder);
  return { architecture, adapter: await readAdapter(join(folder, 'adapter'), architecture) };
};

describe.each(fixtureNames)('an adapter of PEFT: %s', (name) => {
  it('is read with all its tensors, and written as PEFT writes it', async () => {
    const { architecture, adapter } = await readFixtureAdapter(name);
    expect(adapter).toMatchObject({ rank: 4, alpha: 8, targets: allProjections(architecture) });
    expect(adapter.targets).toHaveLength({ lfm2: 9, granite4: 6 }[name as string] ?? 7);
    const theirs = await readFixtureTensors(`${name}/adapter/adapter_model.safetensors`);
    expect(adapter.tensors.size).toBe(theirs.size);
    const folder = await temporaryFolder();
    await writeAdapter(folder, { adapter, architecture, baseModel: `tiny/${name}` });
    const ours = await readFixtureTensors(join(folder, 'adapter_model.safetensors'));
    expect(ours.size).toBe(theirs.size);
    for (const [key, { shape, data }] of theirs) {
      expect(ours.get(key)?.shape).toEqual(shape);
      expect(ours.get(key)?.data).toEqual(data);
    }
    const written = JSON.parse(await readFile(join(folder, 'adapter_config.json'), 'utf8'));
    const config = JSON.parse(
      await readFile(join(fixtureFolder(name), 'adapter/adapter_config.json'), 'utf8'),
    );
    expect(config).toMatchObject(written);
    expect(await readAdapter(folder, architecture)).toEqual(adapter);
  });

  it('is merged as PEFT merges it, in the number format and the files of the base', async () => {
    const { adapter } = await readFixtureAdapter(name);
    const base = fixtureFolder(name);
    const folder = join(await temporaryFolder(), 'merged');
    await writeMerged(base, adapter, folder);
    const files = (await readdir(base, { withFileTypes: true })).filter((entry) => entry.isFile());
    expect((await readdir(folder)).toSorted()).toEqual(files.map((entry) => entry.name).toSorted());
    for (const entry of files.filter((file) => file.name.endsWith('.json')))
      expect(await readFile(join(folder, entry.name))).toEqual(await readFile(join(base, entry.name)));
    const before = await readCheckpoint(base);
    const after = await readCheckpoint(folder);
    const { tensors } = await readReference(name);
    const isFloat32 = name === 'llama' || name === 'granite4';
    const spacing = isFloat32 ? 2 ** -23 : name === 'qwen3' ? 2 ** -10 : 2 ** -7;
    let compared = 0;
    for (const [key, weights] of after.weights) {
      if (!/(_proj|w[123]|put_linear)\.weight$/.test(key)) expect(weights).toEqual(before.weights.get(key));
      else expect(weights).not.toEqual(before.weights.get(key));
      const merged = tensors.get(`merged.${key}`)?.data;
      if (!merged) continue;
      compared++;
      let different = 0;
      for (const [index, number] of weights.entries()) {
        const theirs = Number(merged[index]);
        expect(Math.abs(number - theirs)).toBeLessThanOrEqual(spacing * Math.max(Math.abs(theirs), 0.1));
        if (number !== theirs) different++;
      }
      // Sums in another order round differently where they lie between two numbers.
      if (!isFloat32) expect(different).toBeLessThan(weights.length / 100);
    }
    expect(compared).toBe(2);
  });
});

describe('merging', () => {
  it('leaves no folder when it is cancelled, and refuses one that exists', async () => {
    const { adapter } = await readFixtureAdapter('llama');
    const parent = await temporaryFolder();
    const folder = join(parent, 'merged');
    const signal = AbortSignal.abort(new Error('enough'));
    await expect(writeMerged(fixtureFolder('llama'), adapter, folder, { signal })).rejects.toThrow('enough');
    expect(await readdir(parent)).toEqual([]);
    await mkdir(folder);
    await writeFile(join(folder, 'mine'), '');
    await expect(writeMerged(fixtureFolder('llama'), adapter, folder)).rejects.toMatchObject({
      code: 'bad_option',
      message: `${folder} exists already. Name a new or an empty folder.`,
    });
  });

  it('changes only what the adapter targets', async () => {
    const { architecture, adapter: full } = await readFixtureAdapter('qwen2');
    const shapes = adapterTensors(architecture, { rank: 4, targets: ['v_proj'] });
    const tensors = new Map(shapes.map(({ name }) => [name, full.tensors.get(name) as Float32Array]));
    const adapter: Adapter = { ...full, targets: ['v_proj'], tensors };
    const folder = join(await temporaryFolder(), 'merged');
    await writeMerged(fixtureFolder('qwen2'), adapter, folder);
    const before = await readCheckpoint(fixtureFolder('qwen2'));
    const after = await readCheckpoint(folder);
    const changed = [...after.weights].filter(
      ([key, data]) => data.join() !== before.weights.get(key)?.join(),
    );
    expect(changed.map(([key]) => key)).toEqual(
      [0, 1].map((layer) => `model.layers.${layer}.self_attn.v_proj.weight`),
    );
  });
});

it('an adapter of LFM2 on the attention of its out_proj alone has a name that PEFT does not take for the other', async () => {
  const { architecture, adapter: full } = await readFixtureAdapter('lfm2');
  const targets = ['o_proj', 'up_proj'] as const;
  const shapes = adapterTensors(architecture, { rank: 4, targets });
  const tensors = new Map(shapes.map(({ name }) => [name, full.tensors.get(name) as Float32Array]));
  const adapter: Adapter = { ...full, targets: [...targets], tensors };
  const folder = await temporaryFolder();
  await writeAdapter(folder, { adapter, architecture, baseModel: 'tiny/lfm2' });
  const written = JSON.parse(await readFile(join(folder, 'adapter_config.json'), 'utf8'));
  expect(written.target_modules).toEqual(['self_attn.out_proj', 'w3']);
  expect(await readAdapter(folder, architecture)).toEqual(adapter);
});

describe('an adapter is refused with file, field and value', () => {
  const refused = async (change: (folder: string) => Promise<void>, name: FixtureName = 'qwen2') => {
    const folder = await temporaryFolder();
    await cp(join(fixtureFolder(name), 'adapter'), folder, { recursive: true });
    await change(folder);
    const { architecture } = readConfig(fixtureFolder(name));
    const error: unknown = await readAdapter(folder, architecture).catch((reason: unknown) => reason);
    if (!(error instanceof Error && 'code' in error)) throw new Error(`not refused: ${error}`);
    return `${error.code} ${error.message.replaceAll(`${folder}/`, '')}`;
  };
  const withConfig = (fields: Record<string, unknown>, name?: FixtureName) =>
    refused(async (folder) => {
      const path = join(folder, 'adapter_config.json');
      await writeFile(path, JSON.stringify({ ...JSON.parse(await readFile(path, 'utf8')), ...fields }));
    }, name);

  it.each<[Record<string, unknown>, string]>([
    [{ peft_type: 'LOHA' }, 'peft_type is "LOHA"'],
    [{ task_type: 'SEQ_CLS' }, 'task_type is "SEQ_CLS"'],
    [{ bias: 'lora_only' }, 'bias is "lora_only"'],
    [{ use_dora: true }, 'use_dora is true'],
    [{ toString: 'x' }, 'toString is "x"'],
    [{ use_rslora: true }, 'use_rslora is true'],
    [{ lora_bias: true }, 'lora_bias is true'],
    [{ fan_in_fan_out: true }, 'fan_in_fan_out is true'],
    [{ rank_pattern: { q_proj: 8 } }, 'rank_pattern is {"q_proj":8}'],
    [{ alpha_pattern: { q_proj: 8 } }, 'alpha_pattern is {"q_proj":8}'],
    [{ modules_to_save: ['lm_head'] }, 'modules_to_save is ["lm_head"]'],
    [{ layers_to_transform: [0] }, 'layers_to_transform is [0]'],
    [{ layer_replication: [[0, 2]] }, 'layer_replication is [[0,2]]'],
    [{ trainable_token_indices: [1] }, 'trainable_token_indices is [1]'],
    [{ init_lora_weights: 'pissa' }, 'init_lora_weights is "pissa"'],
    [{ a_new_variant: 2 }, 'a_new_variant is 2'],
    [{ target_modules: ['q_proj', 'lm_head'] }, 'target_modules is ["q_proj","lm_head"]'],
  ])('that is not plain LoRA: %j', async (fields, message) => {
    expect(await withConfig(fields)).toContain(`checkpoint_unsupported adapter_config.json: ${message}`);
  });

  it('that adapts what LFM2 does not have, or the kernels of its convolutions', async () => {
    for (const target of ['o_proj', 'conv'])
      expect(await withConfig({ target_modules: [target] }, 'lfm2')).toContain(
        `target_modules is ["${target}"]. martingale adapts q_proj, k_proj, v_proj, out_proj, in_proj, w1, w3, w2 only`,
      );
  });

  it('that contradicts itself or is missing', async () => {
    expect(await withConfig({ r: 8 })).toMatch(
      /^bad_checkpoint adapter_model\.safetensors: tensor .*lora_A\.weight is \[4,(\d+)\]. It must be \[8,\1\] by adapter/,
    );
    expect(await withConfig({ r: 0 })).toContain('bad_checkpoint adapter_config.json: r is 0');
    expect(await withConfig({ lora_alpha: null })).toContain('adapter_config.json has no lora_alpha');
    for (const file of ['adapter_config.json', 'adapter_model.safetensors'])
      expect(await refused((folder) => rm(join(folder, file)))).toContain(
        `bad_checkpoint ${file} does not exist`,
      );
  });

  it('that was trained on another model', async () => {
    const { architecture } = readConfig(fixtureFolder('qwen3'));
    await expect(readAdapter(join(fixtureFolder('qwen2'), 'adapter'), architecture)).rejects.toThrow(
      /tensor base_model.model.model.layers.0.self_attn.\w+.lora_\w.weight is .* must be .* by adapter_config.json and the base model/,
    );
  });
});

it('the settings of training in an adapter are accepted', async () => {
  const folder = await temporaryFolder();
  const source = join(fixtureFolder('qwen2'), 'adapter');
  await cp(source, folder, { recursive: true });
  const config = JSON.parse(await readFile(join(source, 'adapter_config.json'), 'utf8'));
  const settings = { lora_dropout: 0.05, init_lora_weights: 'gaussian', target_modules: 'all-linear' };
  await writeFile(join(folder, 'adapter_config.json'), JSON.stringify({ ...config, ...settings }));
  const { architecture } = readConfig(fixtureFolder('qwen2'));
  expect((await readAdapter(folder, architecture)).targets).toHaveLength(7);
});
