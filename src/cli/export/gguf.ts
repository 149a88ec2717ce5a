import { basename, join } from 'node:path';
import { MartingaleError } from '../../contract/index.ts';
import type { GgufType, InspectedCheckpoint, TrainedChange } from '../../engines/embedded/tools.ts';
import { writeDurably } from '../../util/durable-files.ts';

interface GgufFiles {
  /** Where they are written. */
  folder: string;
  /** `address`: where other programs find it. */
  base: InspectedCheckpoint & { address: string };
  /** The trained model's name, with its step. */
  name: string;
  change: TrainedChange;
  type: GgufType;
  /** Only the adapter, for use beside the base. */
  adapterOnly: boolean;
  signal: AbortSignal;
  onProgress: (done: number, total: number) => void;
}

/** Writes a model for llama.cpp and what is built on it: one GGUF file, and a Modelfile with which Ollama takes it. */
export async function writeGgufFiles({
  folder,
  base,
  name,
  change,
  type,
  adapterOnly,
  ...rest
}: GgufFiles): Promise<void> {
  const { writeGguf, writeGgufAdapter } = await import('../../engines/embedded/tools.ts');
  const file = `${basename(name).replace(':', '-')}-${adapterOnly ? 'adapter' : type}.gguf`;
  const path = join(folder, file);
  const { format } = base.language;
  if (adapterOnly) {
    if (!('tensors' in change))
      throw new MartingaleError(
        'bad_option',
        `training changed all weights of ${name}, so it has no adapter: leave out --adapter`,
      );
    await writeGgufAdapter(base.source, change, path, { name });
  } else await writeGguf(base.source, change, path, { name, type, format, ...rest });
  const from = adapterOnly ? base.address : `./${file}`;
  const { ollamaTemplate } = await import('./ollama-template.ts');
  const template = ollamaTemplate(base.language);
  const lines = [
    `FROM ${from}`,
    ...(adapterOnly ? [`ADAPTER ./${file}`] : []),
    ...(template === null
      ? ['# Ollama takes the template that it knows for this model, or give one with TEMPLATE.']
      : [`TEMPLATE """${template}"""`]),
    `PARAMETER num_ctx ${base.architecture.contextLength}`,
    '# Replies as they were sampled in training: temperature 1, nothing cut off.',
    ...[
      'PARAMETER temperature 1',
      'PARAMETER top_k 0',
      'PARAMETER top_p 1',
      'PARAMETER min_p 0',
      'PARAMETER repeat_penalty 1',
    ],
  ];
  await writeDurably(join(folder, 'Modelfile'), [Buffer.from(`${lines.join('\n')}\n`)]);
}
