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

/** A position within a part of a text that remembers more of it than a node of a graph can. */
export interface Cursor {
  readonly id: number;
  /** Whether each byte leads to another position, because the text is remembered. */
  readonly isPrecise: boolean;
  /** Whether more may follow than the position shows. */
  readonly isUncertain: boolean;
  /** The position from which tokens are searched. */
  readonly relaxed: Cursor;
  /** Whether the part may end here. */
  readonly mayEnd: boolean;
  /** The bytes that may follow, in ranges that lead to the same positions unless the text is remembered. */
  readonly ranges: readonly (readonly [first: number, last: number])[];
  /** The positions after a byte. */
  step(byte: number): readonly Cursor[];
}
