import { join } from 'node:path';
import { JsonFields } from '../../../language/index.ts';
import { isObject } from '../../../util/json.ts';
import { type Architecture, kindOf, type NamedShape } from '../weights/architecture.ts';
import { encodeHeader, SafetensorsFile } from '../weights/safetensors.ts';
import { readTensor, TensorFiles } from './tensor-files.ts';
import {
  allProjections,
  layerTensorName,
  modulesOf,
  type Projection,
  partName,
  projectionShape,
  projectionsOf,
} from './tensors.ts';

/**
 * A LoRA adapter (Hu et al. 2021, arXiv:2106.09685): each target matrix W of the base model acts as
 * W + B A * alpha / rank.
 */
export interface Adapter {
  rank: number;
  alpha: number;
  targets: readonly Projection[];
  /**
   * A, [rank, inputs], and B, [outputs, rank], of each target in each layer, named
   * `model.layers.0.self_attn.q_proj.lora_A.weight`.
   */
  tensors: ReadonlyMap<string, Float32Array>;
}

export const adapterConfigFile = 'adapter_config.json';
export const adapterWeightsFile = 'adapter_model.safetensors';

export const maxRank = 1024;

/** Prefix of tensor names in PEFT's files. */
const peftPrefix = 'base_model.model.';

/** The tensors of an adapter: A and B of each target that a layer has, layer after layer. */
export function adapterTensors(
  architecture: Architecture,
  { rank, targets }: Pick<Adapter, 'rank' | 'targets'>,
): NamedShape[] {
  return Array.from({ length: architecture.layers }, (_, layer) =>
    targets
      .filter((target) => projectionsOf(architecture, kindOf(architecture, layer)).includes(target))
      .flatMap((target) => {
        const [outputs, inputs] = projectionShape(architecture, target);
        const name = layerTensorName(architecture, layer, target);
        return [
          { name: `${name}.lora_A.weight`, dimensions: [rank, inputs] },
          { name: `${name}.lora_B.weight`, dimensions: [outputs, rank] },
        ];
      }),
  ).flat();
}

/**
 * Fields of PEFT's LoraConfig that say where an adapter comes from or how it was trained, but not what it computes. Any
 * further field must be null, false or empty, so that no variant of LoRA is taken for plain LoRA.
 */
const withoutEffect = new Set([
  'auto_mapping',
  'base_model_name_or_path',
  'ensure_weight_tying',
  'eva_config',
  'exclude_modules',
  'inference_mode',
  'lora_dropout',
  'megatron_core',
  'peft_version',
  'qalora_group_size',
  'revision',
  'runtime_config',
]);

/** Values of further fields with which an adapter is plain LoRA. Methods of initialization must leave W unchanged. */
const plain: ReadonlyMap<string, readonly unknown[]> = new Map([
  ['peft_type', ['LORA']],
  ['task_type', ['CAUSAL_LM']],
  ['bias', ['none']],
  ['init_lora_weights', [true, 'gaussian', 'orthogonal', 'eva']],
]);

/**
 * Reads an adapter that PEFT wrote for a model of this architecture: `adapter_config.json` and
 * `adapter_model.safetensors`, in float32, bfloat16 or float16. Settings of its training, such as `lora_dropout`, are
 * not taken over.
 *
 * @throws EngineError or LanguageError (`checkpoint_unsupported`, `bad_checkpoint`) that names file, field and value.
 */
export async function readAdapter(
  folder: string,
  architecture: Architecture,
  signal?: AbortSignal,
): Promise<Adapter> {
  const config = JsonFields.read(folder, adapterConfigFile);
  const modules = [...modulesOf(architecture).keys()];
  refuseVariants(config, modules);
  const rank = config.count('r', maxRank);
  const alpha = config.number('lora_alpha', { least: 1e-6, most: 1e6 });
  await using files = await TensorFiles.openFile(join(folder, adapterWeightsFile));
  // `target_modules` may be a pattern; the tensors say what it matched.
  const stored = files.files.flatMap(({ tensors }) => [...tensors.keys()]);
  const targets = allProjections(architecture).filter((target) =>
    adapterTensors(architecture, { rank, targets: [target] }).some(({ name }) =>
      stored.includes(`${peftPrefix}${name}`),
    ),
  );
  if (targets.length === 0)
    throw config.unsupported('target_modules', `martingale adapts ${modules.join(', ')}.`);
  const shapes = adapterTensors(architecture, { rank, targets }).map(({ name, dimensions }) => ({
    name: `${peftPrefix}${name}`,
    dimensions,
  }));
  const tensors = new Map<string, Float32Array>();
  for (const tensor of files.select(shapes, { by: `${adapterConfigFile} and the base model` }))
    tensors.set(tensor.name.slice(peftPrefix.length), await readTensor(tensor, signal));
  return { rank, alpha, targets, tensors };
}

/** The hash of the base weights that a file of martingale names: see `hashWeights`. Undefined for other files. */
export async function readBaseWeights(path: string): Promise<string | undefined> {
  await using file = await SafetensorsFile.open(path);
  return file.metadata.base_weights;
}

function refuseVariants(config: JsonFields, modules: readonly string[]): void {
  const { r, lora_alpha, target_modules: targets, ...fields } = config.fields;
  if (Array.isArray(targets))
    for (const target of targets)
      if (!modules.some((module) => module === String(target).split('.').at(-1)))
        throw config.unsupported('target_modules', `martingale adapts ${modules.join(', ')} only.`);
  for (const [field, value] of Object.entries(fields)) {
    const isPlain = withoutEffect.has(field) || isEmpty(value) || plain.get(field)?.includes(value);
    if (!isPlain) throw config.unsupported(field, 'martingale runs plain LoRA, without this setting.', value);
  }
}

const isEmpty = (value: unknown): boolean =>
  value === null ||
  value === false ||
  (Array.isArray(value) && value.length === 0) ||
  (isObject(value) && Object.keys(value).length === 0);

/**
 * Encodes the configuration of an adapter, for PEFT.
 * @param architecture Of the base model.
 * @param baseModel Where PEFT finds the base model: a folder, or its name on the Hugging Face hub.
 */
export function encodeAdapterConfig(
  { rank, alpha, targets }: Omit<Adapter, 'tensors'>,
  { architecture, baseModel }: { architecture: Architecture; baseModel: string },
): Uint8Array {
  const config = {
    peft_type: 'LORA',
    task_type: 'CAUSAL_LM',
    base_model_name_or_path: baseModel,
    r: rank,
    lora_alpha: alpha,
    target_modules: targetModules(architecture, targets),
    lora_dropout: 0,
    bias: 'none',
    fan_in_fan_out: false,
    inference_mode: true,
  };
  return new TextEncoder().encode(`${JSON.stringify(config, null, 2)}\n`);
}

/** The names of an adapter's targets for PEFT. A module of which not all projections are adapted has a longer name. */
export const targetModules = (architecture: Architecture, targets: readonly Projection[]): string[] =>
  Array.from(modulesOf(architecture)).flatMap(([module, own]) => {
    const adapted = own.filter((projection) => targets.includes(projection));
    return adapted.length === own.length
      ? module
      : adapted.map((projection) => partName(architecture, projection));
  });

/**
 * Encodes the header of PEFT's file of tensors. Their float32 data must follow, in the order of `adapterTensors`.
 * @param baseWeights Hash of the weights that the adapter belongs to: see `hashWeights`.
 */
export function encodeAdapterHeader(tensors: readonly NamedShape[], baseWeights?: string): Uint8Array {
  return encodeHeader(
    tensors.map(({ name, dimensions }) => ({ name: `${peftPrefix}${name}`, dimensions, format: 'F32' })),
    { format: 'pt', ...(baseWeights !== undefined && { base_weights: baseWeights }) },
  );
}

/**
 * Adds B A * alpha / rank to rows of a target's matrix, in place.
 * @param name Of the matrix, without `.weight`.
 * @param rows Rows of the matrix, one after another.
 */
export function addAdapter(adapter: Adapter, name: string, rows: Float32Array, firstRow: number): void {
  const { rank, alpha } = adapter;
  const [a, b] = ['A', 'B'].map((part) => adapter.tensors.get(`${name}.lora_${part}.weight`)) as [
    Float32Array,
    Float32Array,
  ];
  const inputs = a.length / rank;
  const change = new Float64Array(inputs);
  for (let row = 0; row < rows.length / inputs; row++) {
    change.fill(0);
    for (let part = 0; part < rank; part++) {
      const factor = ((b[(firstRow + row) * rank + part] as number) * alpha) / rank;
      for (let index = 0; index < inputs; index++)
        change[index] = (change[index] as number) + factor * (a[part * inputs + index] as number);
    }
    for (let index = 0; index < inputs; index++)
      rows[row * inputs + index] = (rows[row * inputs + index] as number) + (change[index] as number);
  }
}
