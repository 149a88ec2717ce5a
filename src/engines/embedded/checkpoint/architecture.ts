/** A decoder-only transformer. */
export interface Architecture {
  vocabularySize: number;
  width: number;
  layers: number;
  heads: number;
  keyValueHeads: number;
  headWidth: number;
  mlpWidth: number;
  contextLength: number;
  positions:
    | 'learned'
    | {
        theta: number;
        scaling: null | {
          factor: number;
          lowFrequencyFactor: number;
          highFrequencyFactor: number;
          originalContextLength: number;
        };
      };
  previousTokens: number;
  mlp: 'squared-relu' | 'gated-silu';
  normEpsilon: number;
  queryKeyNorm: boolean;
  attentionBias: boolean;
  tiedEmbeddings: boolean;
}
