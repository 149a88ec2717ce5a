/**
 * How a model call of a rollout ended.
 *
 * - `answered`: with a reply that ended by itself or at a limit that was asked for.
 * - `cut_by_context`: with a reply that was cut where the model's context is full.
 * - `refused_by_context`: the prompt is longer than the model's context.
 * - `unanswered`: anything else: the service failed or is away, a deadline passed, the call was aborted.
 */
export type CallEnd = 'answered' | 'cut_by_context' | 'refused_by_context' | 'unanswered';

/** How the calls of a rollout ended: tells what the policy brought about from what went wrong around it. */
export class CallEnds {
  readonly #refused: number[];
  #hasUnanswered = false;
  #newest: CallEnd | undefined;

  constructor(refused: readonly number[] = []) {
    this.#refused = [...refused];
  }

  /** `index` is undefined for a call that is not recorded. */
  note(end: CallEnd, index: number | undefined): void {
    if (end === 'unanswered') this.#hasUnanswered = true;
    if (end === 'refused_by_context' && index !== undefined) this.#refused.push(index);
    this.#newest = end;
  }

  /** Whether a call got no answer, for a reason other than the length of its prompt. */
  get hasUnanswered(): boolean {
    return this.#hasUnanswered;
  }

  /** Whether the call that ended last met the end of the context. */
  get isAtContextEnd(): boolean {
    return this.#newest === 'cut_by_context' || this.#newest === 'refused_by_context';
  }

  /** Indexes of the calls whose prompts were longer than the context. */
  get refused(): readonly number[] {
    return this.#refused;
  }
}
