import type { ShouldPause } from '../../../language/grammars.ts';
import { getOrInsert } from '../../../util/get-or-insert.ts';
import type { LogitRows } from '../sampling/distribution.ts';
import type { SampledAnswer, Sequence } from './sequence.ts';

/** A row whose next token is chosen later, when the tokens its constraint allows are known. */
interface Undecided {
  sequence: Sequence;
  answer: SampledAnswer;
  /** One row: the logits after its last token. */
  logits: LogitRows;
}

/** How long one tenant's constraints are computed before the next tenant's. */
const tenantSliceMs = 2;

/**
 * Computes which tokens heavy constraints allow, for one time slice in each step. Rows that wait for it pause and all
 * others continue. Tenants take turns, so that one tenant's heavy constraints do not delay another's light ones. The
 * time at which a token is chosen does not influence which token is chosen.
 */
export class DeferredMasking {
  /** By tenant, the next tenant first. No list is empty. */
  readonly #undecided = new Map<string, Undecided[]>();
  readonly #now: () => number;

  /** `now`: a monotonic clock in milliseconds. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  add(tenant: string, undecided: Undecided): void {
    getOrInsert(this.#undecided, tenant, () => []).push(undecided);
  }

  /** Whether one of the answer's sequences is undecided. */
  holds(answer: SampledAnswer): boolean {
    for (const list of this.#undecided.values())
      if (list.some((undecided) => undecided.answer === answer)) return true;
    return false;
  }

  clear(): void {
    this.#undecided.clear();
  }

  /** Continues for `sliceMs`, or until nothing is undecided. */
  run(sliceMs: number): void {
    const end = this.#now() + sliceMs;
    do {
      const [first] = this.#undecided;
      if (!first) return;
      const [tenant, list] = first;
      this.#undecided.delete(tenant);
      const sliceEnd = this.#now() + tenantSliceMs;
      const [undecided] = list;
      if (undecided && tryChoose(undecided, () => this.#now() >= sliceEnd)) list.shift();
      if (list.length > 0) this.#undecided.set(tenant, list);
    } while (this.#now() < end);
  }
}

/** Chooses the next token if its constraint is computed; returns true when nothing is left to do. */
function tryChoose({ sequence, answer, logits }: Undecided, isOver: ShouldPause): boolean {
  if (answer.ended) return true;
  if (!sequence.prepare(isOver)) return false;
  answer.choose(logits, 0, sequence);
  return true;
}
