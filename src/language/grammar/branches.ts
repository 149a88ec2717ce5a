import type { Constraint } from '../constraint/constraint.ts';
import { LanguageError } from '../error.ts';
import type { TextState } from './text-state.ts';

export interface Branch {
  open: number | null;
  repeat: boolean;
  start(): TextState;
  freeText: boolean;
}

/** The branches of a constraint, and the special tokens that lead into and out of them. */
export class Branches {
  readonly endToken: number;
  /** Entered without a token, where there is one. */
  readonly unopened: Branch | null;
  readonly #byToken = new Map<number, Branch>();
  /** What may open a reply. */
  readonly opening: Int32Array;
  /** What may open a reply that may also end at once. */
  readonly openingOrEnd: Int32Array;
  /** What may follow a branch that repeats, or one of text. */
  readonly following: Int32Array;
  /** What may follow any other. */
  readonly end: Int32Array;

  constructor(branches: readonly Branch[], endToken: number) {
    this.endToken = endToken;
    this.unopened = branches.find(({ open }) => open === null) ?? null;
    for (const branch of branches) if (branch.open !== null) this.#byToken.set(branch.open, branch);
    const opened = [...this.#byToken].filter(([, { repeat }]) => repeat).map(([token]) => token);
    this.opening = Int32Array.from(this.#byToken.keys()).sort();
    this.openingOrEnd = Int32Array.from([...this.#byToken.keys(), endToken]).sort();
    this.following = Int32Array.from([...opened, endToken]).sort();
    this.end = Int32Array.of(endToken);
  }

  /** Special tokens that may come once a branch is complete. */
  after(branch: Branch): Int32Array {
    return branch.repeat || branch.freeText ? this.following : this.end;
  }

  openedBy(token: number): Branch | null {
    return this.#byToken.get(token) ?? null;
  }
}

/** Refuses constraints whose branches could not be told apart. */
export function checkBranches(
  { branches }: Constraint,
  special: ReadonlySet<number>,
  endToken: number,
): void {
  const refuse = (message: string): never => {
    throw new LanguageError('constraint_invalid', `constraint: ${message}`);
  };
  if (branches.length === 0) refuse('it has no branch, so that nothing could be written');
  const seen = new Set<number | null>();
  for (const { open, repeat } of branches) {
    if (seen.has(open))
      refuse(
        open === null
          ? 'two branches begin without a special token'
          : `two branches begin with token ${open}; join their grammars`,
      );
    seen.add(open);
    if (open === null && repeat) refuse('a branch that repeats must begin with a special token');
    if (open !== null && (!special.has(open) || open === endToken))
      refuse(`a branch begins with token ${open}, which is not a special token that may begin one`);
  }
}
