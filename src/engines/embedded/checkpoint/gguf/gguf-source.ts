import { rotaryFrequencies } from '../rotary-tables.ts';
import { type CheckpointSource, TensorFiles } from '../tensor-files.ts';
import { GgufFields } from './fields.ts';
import { gemma3, gemma3Config } from './gemma3.ts';
import { GgufFile, ropeFactors } from './gguf-file.ts';
import { lfm2, lfm2Config } from './lfm2.ts';
import { endTokens, tokenizerConfig, tokenizerJson } from './tokenizer.ts';

/** The architectures, as GGUF files and `config.json` call them, and the classes of transformers that load them. */
const classes: Readonly<Record<string, string>> = {
  llama: 'LlamaForCausalLM',
  qwen2: 'Qwen2ForCausalLM',
  qwen3: 'Qwen3ForCausalLM',
  [gemma3]: 'Gemma3ForCausalLM',
  [lfm2]: 'Lfm2ForCausalLM',
};

/**
 * A GGUF file as a checkpoint: its metadata as the files of a folder in Hugging Face form.
 * @throws EngineError (`bad_checkpoint`, `checkpoint_unsupported`) that names the file, the field and its value.
 */
export async function openGguf(path: string): Promise<CheckpointSource> {
  await using file = await GgufFile.open(path);
  const fields = new GgufFields(path, file.header);
  const files = new Map(
    Object.entries({
      'config.json': configJson(fields, file, await file.ropeFactors()),
      'generation_config.json': { eos_token_id: endTokens(fields) },
      'tokenizer.json': tokenizerJson(fields),
      'tokenizer_config.json': tokenizerConfig(fields),
    }).map(([name, content]) => [name, Buffer.from(JSON.stringify(content))]),
  );
  return {
    path,
    pathOf: (name) => `${path} (as ${name})`,
    bytes: (name) => files.get(name) ?? null,
    sharedFiles: async () => [...files.keys()],
    openTensors: async () => new TensorFiles([await GgufFile.open(path)]),
  };
}

/** What a GGUF file says of the model, as `config.json` says it. Values are checked where that is read. */
function configJson(fields: GgufFields, file: GgufFile, factors: readonly number[] | null): object {
  const type = fields.text('general.type') ?? 'model';
  if (type !== 'model') throw fields.unsupported('general.type', 'It must be the file of a whole model.');
  if ((fields.number('split.count') ?? 1) > 1)
    throw fields.unsupported('split.count', 'Join the parts with "llama-gguf-split --merge" first.');
  const family = fields.text('general.architecture') ?? '';
  if (!Object.hasOwn(classes, family))
    throw fields.unsupported(
      'general.architecture',
      `martingale runs ${Object.keys(classes).join(', ')}. Choose a model of these (Llama 3, SmolLM2, Qwen2.5, Qwen3, Gemma 3, LFM2).`,
    );
  const own = (name: string) => `${family}.${name}`;
  const number = (name: string) => fields.number(own(name));
  const experts = number('expert_count') ?? 0;
  if (experts > 0) throw fields.unsupported(own('expert_count'), 'martingale runs models without experts.');
  const isGemma3 = family === gemma3;
  if (!isGemma3 && (number('attention.sliding_window') ?? 0) > 0)
    throw fields.unsupported(own('attention.sliding_window'), 'martingale runs attention without windows.');
  const width = number('attention.key_length');
  if (width !== undefined && (number('attention.value_length') ?? width) !== width)
    throw fields.unsupported(
      own('attention.value_length'),
      `Keys and values must have the same width, ${width}.`,
    );
  const [embedded, heads] = [number('embedding_length'), number('attention.head_count')];
  const headWidth = width ?? (embedded !== undefined && heads ? embedded / heads : 0);
  if ((number('rope.dimension_count') ?? headWidth) !== headWidth)
    throw fields.unsupported(
      own('rope.dimension_count'),
      `martingale rotates whole heads only: it must be ${headWidth}.`,
    );
  const theta = number('rope.freq_base') ?? 10_000;
  return {
    architectures: [classes[family]],
    model_type: isGemma3 ? 'gemma3_text' : family,
    vocab_size: file.tensors.get('model.embed_tokens.weight')?.dimensions[0],
    hidden_size: embedded,
    num_hidden_layers: number('block_count'),
    num_attention_heads: heads,
    ...(family === lfm2 ? {} : { num_key_value_heads: number('attention.head_count_kv') }),
    ...(width === undefined && family !== 'qwen3' && !isGemma3 ? {} : { head_dim: headWidth }),
    intermediate_size: number('feed_forward_length'),
    max_position_embeddings: number('context_length'),
    rms_norm_eps: number('attention.layer_norm_rms_epsilon'),
    ...(isGemma3
      ? gemma3Config(fields, { width: embedded ?? 0, heads: heads ?? 1, headWidth })
      : {
          torch_dtype: 'float16',
          hidden_act: 'silu',
          rope_theta: theta,
          rope_scaling: scalingOf(fields, own, { factors, theta, headWidth }),
        }),
    ...(family === lfm2 ? lfm2Config(fields) : {}),
    tie_word_embeddings: !file.tensors.has('lm_head.weight'),
    bos_token_id: fields.number('tokenizer.ggml.bos_token_id'),
    eos_token_id: fields.number('tokenizer.ggml.eos_token_id'),
  };
}

/** The numbers of all published models of Llama 3; their factors differ. */
const llama3 = { low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 8192 };

/** Llama 3's scaling. A file has only the resulting factors, so this finds the settings that give the same factors. */
function scalingOf(
  fields: GgufFields,
  own: (name: string) => string,
  { factors, theta, headWidth }: { factors: readonly number[] | null; theta: number; headWidth: number },
): object | null {
  const type = fields.text(own('rope.scaling.type')) ?? 'none';
  if (type !== 'none')
    throw fields.unsupported(
      own('rope.scaling.type'),
      "martingale runs rotary positions without scaling, or with Llama 3's.",
    );
  if (!factors) return null;
  const factor = factors.reduce((largest, one) => Math.max(largest, one), 1);
  const plain = rotaryFrequencies({ theta, scaling: null }, headWidth);
  const scaled = rotaryFrequencies(
    {
      theta,
      scaling: {
        factor,
        lowFrequencyFactor: llama3.low_freq_factor,
        highFrequencyFactor: llama3.high_freq_factor,
        originalContextLength: llama3.original_max_position_embeddings,
      },
    },
    headWidth,
  );
  const isSame =
    factors.length === plain.length &&
    factors.every(
      (one, index) => Math.abs(((scaled[index] as number) * one) / (plain[index] as number) - 1) < 1e-4,
    );
  if (!isSame)
    throw fields.unsupported(
      own('rope.freq_base'),
      `martingale runs the rotary scaling of Llama 3, but ${ropeFactors} is another one.`,
    );
  return { rope_type: 'llama3', factor, ...llama3 };
}
