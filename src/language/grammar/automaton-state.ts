/** What may follow a text. Texts with the same continuations share one state, as far as the graph shows. */
export interface AutomatonState {
  /** Whether the text so far is in the language. */
  readonly complete: boolean;
  /** The state after one byte; null if the byte leaves the language. */
  step(byte: number): AutomatonState | null;
  /** The first byte above this one that may lead to another state than this one; 256 if there is none. */
  rangeEnd(byte: number): number;
  /** The only byte that may follow; null if there are several, none, or the text may end here, or if that is uncertain. */
  readonly onlyByte: number | null;
  /** Whether nothing may follow. */
  readonly final: boolean;
  /**
   * The state to search tokens from, which forgets what only texts of several items need. Itself without items that must
   * differ. Every text that may follow it may follow this state too.
   */
  readonly relaxed: AutomatonState;
  /** Whether this is a state of such a search that may allow less than the text does. */
  readonly isUncertain: boolean;
}
