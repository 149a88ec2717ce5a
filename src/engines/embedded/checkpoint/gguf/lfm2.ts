import { EngineError } from '../../../engine.ts';
import { type Architecture, kindOf } from '../../weights/architecture.ts';
import type { GgufField } from './encode-header.ts';
import type { GgufFields } from './fields.ts';

/** As `gguf/names.ts` and llama.cpp call it. */
export const lfm2 = 'lfm2';

const name = (field: string) => `${lfm2}.${field}`;

/** The heads of keys and values of each layer, 0 of a convolution; in files where all are the same, one number. */
const keyValueHeads = 'attention.head_count_kv';

/** What a GGUF file says of an LFM2 beside its sizes, as `config.json` says it. */
export function lfm2Config(fields: GgufFields): object {
  if (fields.flag(name('attention.causal')) === false)
    throw fields.unsupported(
      name('attention.causal'),
      'martingale runs models that see earlier tokens only.',
    );
  const given = fields.get(name(keyValueHeads));
  const heads = Array.isArray(given) ? fields.numbers(name(keyValueHeads)) : null;
  const [most = 0] = heads?.toSorted((one, other) => other - one) ?? [];
  if (heads?.some((count) => count !== 0 && count !== most))
    throw fields.unsupported(
      name(keyValueHeads),
      'martingale runs layers of attention that all have the same number of heads.',
    );
  return {
    torch_dtype: 'bfloat16',
    num_key_value_heads: heads ? most || undefined : fields.number(name(keyValueHeads)),
    norm_eps: fields.number(name('attention.layer_norm_rms_epsilon')),
    rope_theta: fields.number(name('rope.freq_base')) ?? 10_000,
    // The file has the width that its tensors have.
    block_auto_adjust_ff_dim: false,
    conv_bias: false,
    conv_L_cache: fields.number(name('shortconv.l_cache')),
    layer_types: heads?.map((count) => (count === 0 ? 'conv' : 'full_attention')),
  };
}

/**
 * The fields of a GGUF file that only LFM2 has.
 * @throws EngineError (`checkpoint_unsupported`) for what llama.cpp does not run
 */
export function lfm2Fields(architecture: Architecture): Record<string, GgufField> {
  const { layers, convolutions } = architecture;
  if (!convolutions) return {};
  if (convolutions.taps < 2)
    throw new EngineError(
      'checkpoint_unsupported',
      `llama.cpp does not run this LFM2: conv_L_cache is ${convolutions.taps}, and llama.cpp needs 2 or more. Export with --merged instead.`,
    );
  const heads = Array.from({ length: layers }, (_, layer) =>
    kindOf(architecture, layer) === 'convolution' ? 0 : architecture.keyValueHeads,
  );
  return {
    [keyValueHeads]: { type: 'int32s', value: heads },
    'shortconv.l_cache': { type: 'uint32', value: convolutions.taps },
  };
}
