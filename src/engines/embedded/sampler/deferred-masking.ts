import type { BeamSearch } from '../extensions/beam-search.ts';
import type { Sequence } from './sequence.ts';

/** A place whose next token is chosen once it is known which ones its constraint allows. */
interface Undecided {
  sequence: Sequence;
  search: BeamSearch | null;
  /** After its last token. */
  logits: Float32Array;
}

/** For so long one tenant's constraints are worked on before it is the next tenant's turn. */
const turnMs = 2;

/**
 * Works out, a slice of time in each step, which tokens heavy constraints allow. What waits for that does not go on
 * meanwhile, and all else does; tenants take turns, so that somebody's heavy constraints keep nobody else's light ones
 * waiting. When something is chosen has no influence on what is chosen.
 */
export class DeferredMasking {
  /** By tenant, in the order of their turns. None is empty. */
  readonly #undecided = new Map<string, Undecided[]>();
  readonly #now: () => number;

  /** `now`: a clock in milliseconds that never goes back. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  add(tenant: string, undecided: Undecided): void {
    const others = this.#undecided.get(tenant);
    if (others) others.push(undecided);
    else this.#undecided.set(tenant, [undecided]);
  }

  /** Whether one of the search's beams is undecided. */
  holds(search: BeamSearch): boolean {
    for (const list of this.#undecided.values())
      if (list.some((undecided) => undecided.search === search)) return true;
    return false;
  }

  clear(): void {
    this.#undecided.clear();
  }

  /** Goes on for so long, or until nothing is undecided. */
  goOn(sliceMs: number): void {
    const end = this.#now() + sliceMs;
    do {
      const [first] = this.#undecided;
      if (!first) return;
      const [tenant, list] = first;
      this.#undecided.delete(tenant);
      const turnEnd = this.#now() + turnMs;
      const [undecided] = list;
      if (undecided && isThrough(undecided, () => this.#now() >= turnEnd)) list.shift();
      if (list.length > 0) this.#undecided.set(tenant, list);
    } while (this.#now() < end);
  }
}

/** Chooses what comes next where all is known that is needed; true where nothing is left to do. */
function isThrough({ sequence, search, logits }: Undecided, isOver: () => boolean): boolean {
  if (search ? search.ended : sequence.ended) return true;
  if (!sequence.prepare(isOver)) return false;
  if (search) search.weigh(sequence, logits, 0);
  else sequence.sample(logits, 0);
  return true;
}
