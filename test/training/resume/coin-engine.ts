import { createHash } from 'node:crypto';
import type { GenerateRequest, Generation, TrainRequest } from '../../../src/engines/engine.ts';
import { ScriptedEngine, special, tokensOf } from '../../support/scripted-engine.ts';

/** Answers 0 or 1, determined by prompt, seed and checkpoint alone, whatever else runs. */
export class CoinEngine extends ScriptedEngine {
  /** The folder of each checkpoint that was trained, again if it was trained again. */
  readonly trainedFolders: string[] = [];

  override async train(request: TrainRequest): Promise<void> {
    await super.train(request);
    this.trainedFolders.push(request.folder);
  }

  override async generate(request: GenerateRequest): Promise<Generation> {
    this.requests.push(request);
    await this.hold?.('generate');
    const { prompt, seed, weights } = request;
    const asked = `${prompt.join()} ${seed} ${weights.folder === null ? 'base' : weights.folder.split(/[\\/]/).at(-1)}`;
    const coin = (createHash('sha256').update(asked).digest()[0] ?? 0) % 2;
    const tokens = tokensOf(String(coin), special.end);
    const logprobs = tokens.map(() => -0.5);
    const topLogprobs = tokens.map(() => []);
    return { tokens, logprobs, topLogprobs, finishReason: 'stop', stop: null, cachedTokens: 0 };
  }
}
