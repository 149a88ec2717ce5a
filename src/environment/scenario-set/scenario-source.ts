/** What JSON can hold. */
export type JsonValue =
  | null
  | boolean
  | number
  | string
  | readonly JsonValue[]
  | { readonly [name: string]: JsonValue };

export interface DrawnScenario<Scenario> {
  scenario: Scenario;
  /** Names the scenario wherever it is drawn: the same scenario has the same key in every epoch and every run. */
  key: string;
}

/** The rewards of one group of a drawn scenario, those of its completed rollouts. */
export interface ScenarioResult {
  key: string;
  rewards: readonly number[];
}

/** Where scenarios are drawn from, one after the other, by a single consumer. */
export interface ScenarioSource<Scenario> {
  /**
   * The next `count` scenarios; fewer only at the end of a source that does not repeat. Takes that overlap are served
   * one after the other.
   */
  take(count: number, options?: { signal?: AbortSignal }): Promise<DrawnScenario<Scenario>[]>;
  /** Where the source stands, as plain JSON. While a take is under way: where it stood before it. */
  position(): JsonValue;
  /** Goes to a saved position: what is taken next is what would have been taken there. */
  seek(position: JsonValue): Promise<void>;
  /** Tells what came of drawn scenarios; a source that does not ask for it takes no notice. */
  observe(results: readonly ScenarioResult[]): void;
  /** Draws until the source ends, or until one that repeats for ever begins again; null where that is not known. */
  readonly size: number | null;
}
