import { families, familyNames } from './families/families.ts';
import { GgufFields } from './gguf/fields.ts';
import { endTokens, tokenizerConfig, tokenizerJson } from './gguf/tokenizer.ts';
import { GgufFile } from './gguf-file.ts';
import { type CheckpointSource, TensorFiles } from './tensor-files.ts';
import { embeddingTensor, headTensor } from './tensors.ts';

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
  fields.text('general.architecture');
  const { family } = file;
  if (!family)
    throw fields.unsupported(
      'general.architecture',
      `martingale runs ${[...new Set(families.map(({ gguf }) => gguf.name))].join(', ')}. Choose a model of these (${familyNames}).`,
    );
  const own = (name: string) => `${family.gguf.name}.${name}`;
  const number = (name: string) => fields.number(own(name));
  const experts = number('expert_count') ?? 0;
  if (experts > 0) throw fields.unsupported(own('expert_count'), 'martingale runs models without experts.');
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
  return {
    architectures: [family.className],
    model_type: family.modelType,
    vocab_size: file.tensors.get(embeddingTensor)?.dimensions[0],
    hidden_size: embedded,
    num_hidden_layers: number('block_count'),
    num_attention_heads: heads,
    ...(width === undefined && family.headWidth === null ? {} : { head_dim: headWidth }),
    intermediate_size: number('feed_forward_length'),
    max_position_embeddings: number('context_length'),
    rms_norm_eps: number('attention.layer_norm_rms_epsilon'),
    ...family.gguf.config(fields, { width: embedded ?? 0, heads: heads ?? 1, headWidth, factors }),
    tie_word_embeddings: !file.tensors.has(headTensor),
    bos_token_id: fields.number('tokenizer.ggml.bos_token_id'),
    eos_token_id: fields.number('tokenizer.ggml.eos_token_id'),
  };
}
