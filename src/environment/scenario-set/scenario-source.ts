/** A JSON value. */
export type JsonValue =
  | null
  | boolean
  | number
  | string
  | readonly JsonValue[]
  | { readonly [name: string]: JsonValue };

export interface DrawnScenario<Scenario> {
  scenario: Scenario;
  /** Identifies the scenario: it has the same key in every epoch and every run. */
  key: string;
}

/** The rewards of the completed rollouts of one group of a drawn scenario. */
export interface ScenarioResult {
  key: string;
  rewards: readonly number[];
}

/** Gives scenarios in order to a single consumer. */
export interface ScenarioSource<Scenario> {
  /**
   * The next `count` scenarios; fewer only at the end of a source that does not repeat. Overlapping takes run one after
   * the other.
   */
  take(count: number, options?: { signal?: AbortSignal }): Promise<DrawnScenario<Scenario>[]>;
  /** The position of the source, as plain JSON. During a take: the position before that take. */
  position(): JsonValue;
  /** Goes to a saved position: the next take gives what it would have given there. */
  seek(position: JsonValue): Promise<void>;
  /** Reports the rewards of drawn scenarios. Sources that do not learn from them ignore them. */
  observe(results: readonly ScenarioResult[]): void;
  /** Number of draws until the source ends, or until an endless source begins again; null if unknown. */
  readonly size: number | null;
}
