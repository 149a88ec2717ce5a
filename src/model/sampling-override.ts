/** Settings that hold for every call through a model handle, whatever the agent asks for. */
export interface SamplingOverride {
  /** 0 is greedy, 1 the model's own distribution. */
  temperature?: number;
  topP?: number;
  topK?: number;
  minP?: number;
  /** Most tokens a reply may have. */
  maxOutputTokens?: number;
}
