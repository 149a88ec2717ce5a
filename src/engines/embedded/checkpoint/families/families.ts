import type { Family } from './family.ts';
import { gemma3 } from './gemma3.ts';
import { granite, graniteHybrid, graniteHybridFile } from './granite.ts';
import { lfm2 } from './lfm2.ts';
import { llama, qwen2, qwen3 } from './llama.ts';
import { ministral, mistral } from './mistral.ts';
import { smollm3 } from './smollm3.ts';

/**
 * The families that martingale runs. SmolLM2 is a `llama`, Qwen2.5 a `qwen2`. Several may have the same name in GGUF files,
 * or the same `model_type`: what is read becomes the first of them.
 */
export const families: readonly Family[] = [
  ...[llama, qwen2, qwen3, gemma3, lfm2, smollm3],
  ...[mistral, ministral],
  ...[granite, graniteHybridFile, graniteHybrid],
];

/** As a remedy names them. */
export const familyNames = 'Llama 3, SmolLM2, SmolLM3, Qwen2.5, Qwen3, Gemma 3, LFM2, Granite, Mistral';
