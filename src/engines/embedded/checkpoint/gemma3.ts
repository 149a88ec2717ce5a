import type { JsonFields } from '../../../language/index.ts';
import type { Architecture } from '../weights/architecture.ts';
import { fromFloat32, toFloat32 } from '../weights/number-formats.ts';
import { layersOfType, mostPositions, readPositions } from './layer-settings.ts';

/** The defaults of transformers' Gemma3TextConfig. */
export const gemma3Defaults = { headWidth: 256, keyValueHeads: 4 } as const;
const defaults = {
  scaledWidth: 256,
  window: 4096,
  pattern: 6,
  theta: 1_000_000,
  localTheta: 10_000,
} as const;

/** Fields that change the model when they have another value. Missing and null mean this one. */
const fixed: readonly (readonly [field: string, value: unknown, remedy: string])[] = [
  [
    'hidden_activation',
    'gelu_pytorch_tanh',
    'martingale runs MLPs of Gemma 3 with "gelu_pytorch_tanh" only.',
  ],
  ['attn_logit_softcapping', null, 'martingale runs attention without a cap of its scores.'],
  ['final_logit_softcapping', null, 'martingale runs heads without a cap of their logits.'],
  ['use_bidirectional_attention', false, 'martingale runs attention to earlier tokens only.'],
];

/**
 * What the `config.json` of a text model of Gemma 3 says beside its sizes.
 * @throws LanguageError (`checkpoint_unsupported`, `bad_checkpoint`) that names file, field and value.
 */
export function gemma3Options(config: JsonFields, { width, layers }: { width: number; layers: number }) {
  for (const [field, value, remedy] of fixed)
    if ((config.get(field) ?? value) !== value) throw config.unsupported(field, remedy);
  const rope = config.nested('rope_parameters');
  const scaledWidth = config.number('query_pre_attn_scalar', {
    least: 1e-6,
    most: 1e6,
    fallback: defaults.scaledWidth,
  });
  return {
    positions: readPositions(
      rope?.nested('full_attention') ?? config.nested('rope_scaling'),
      { file: config, field: 'rope_theta', fallback: defaults.theta },
      ['default', 'linear'],
    ),
    mlp: 'gated-gelu',
    normOffset: 1,
    outputNorms: true,
    embeddingScale: embeddingScaleOf(config, width),
    attentionScale: 1 / Math.sqrt(scaledWidth),
    local: {
      layers: localLayersOf(config, layers),
      window: config.count('sliding_window', mostPositions, defaults.window),
      positions: readPositions(
        rope?.nested('sliding_attention'),
        { file: config, field: 'rope_local_base_freq', fallback: defaults.localTheta },
        ['default'],
      ),
    },
    queryKeyNorm: true,
    attentionBias: false,
    tiedEmbeddings: config.flag('tie_word_embeddings', true),
  } satisfies Partial<Architecture>;
}

const formats = { float32: 'F32', bfloat16: 'BF16', float16: 'F16' } as const;

/**
 * The root of the width, rounded to the model's number format, as transformers does. Gemma is trained so, in bfloat16:
 * gemma.cpp rounds the factor to it in all formats. llama.cpp does not round it, which changes it by up to 0.2 %.
 */
function embeddingScaleOf(config: JsonFields, width: number): number {
  const name = config.get('dtype') ?? config.get('torch_dtype');
  const format = Object.entries(formats).find(([known]) => known === name)?.[1] ?? 'BF16';
  const rounded = new Float32Array(1);
  toFloat32(format, fromFloat32(format, Float32Array.of(Math.sqrt(width))), rounded);
  return rounded[0] as number;
}

/** Whether each layer has local attention: by `layer_types`, or in early configurations all but each sixth. */
function localLayersOf(config: JsonFields, layers: number): boolean[] {
  const types = layersOfType(config, ['sliding_attention', 'full_attention'], layers);
  if (types) return types;
  const pattern = config.count('sliding_window_pattern', mostPositions, defaults.pattern);
  return Array.from({ length: layers }, (_, layer) => (layer + 1) % pattern !== 0);
}
