import { LanguageError } from '../error.ts';

/**
 * Most nodes visited for one set of legal tokens: about 0.2 seconds. Grammars in use need a few hundred; 20,000
 * alternatives with a common beginning need half of the limit.
 */
const maxVisits = 200_000;
/** Most nodes visited for one state: some 20 milliseconds, during which no other request is sampled. */
const maxVisitsOfState = 50_000;

/** The nodes that a task has visited. A task that visits too many ends with an error. Automata of one grammar share it. */
export class Visits {
  #count = 0;
  #limit = maxVisits;

  /** Nodes visited for the current task. */
  get count(): number {
    return this.#count;
  }

  /** Starts a task that may visit `limit` nodes, or continues one that has already visited `spent`. */
  startTask({ spent = 0, limit = maxVisits }: { spent?: number; limit?: number } = {}): void {
    this.#count = spent;
    this.#limit = limit;
  }

  /** Counts a node. `before`: the count when the current state was begun. Throws a `LanguageError`. */
  add(before: number): void {
    this.#count++;
    if (this.#count > this.#limit) throw tooComplex(this.#limit, 'what may come next');
    if (this.#count - before > maxVisitsOfState)
      throw tooComplex(maxVisitsOfState, 'what may follow one character');
  }
}

function tooComplex(steps: number, what: string): LanguageError {
  return new LanguageError(
    'grammar_too_complex',
    `The grammar needs more than ${steps} steps to find ${what}. Make alternatives differ earlier, and nest fewer ` +
      'repetitions of parts that may be empty.',
  );
}
