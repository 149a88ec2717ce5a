import type { Runs } from './runs.ts';
import type { SampledAnswer } from './sequence.ts';
import type { Occupant, Slots } from './slots.ts';

/** An answer that takes over the computed prompt of another. */
interface Follower {
  occupant: Occupant;
  leader: Occupant;
}

/** The answers whose prompts come next, in order. Those whose prompts are computed join the running answers. */
export class Prompts {
  readonly #slots: Slots;
  readonly #runs: Runs;
  readonly #running: Set<SampledAnswer>;
  /** The first has a slot if its prompt is too long for one step and was begun. */
  #next: Occupant[] = [];

  constructor(slots: Slots, runs: Runs, running: Set<SampledAnswer>) {
    this.#slots = slots;
    this.#runs = runs;
    this.#running = running;
  }

  get count(): number {
    return this.#next.length;
  }

  add(occupants: readonly Occupant[]): void {
    this.#next.push(...occupants);
  }

  /** Removes the answers that have ended, and returns them. */
  removeEnded(): SampledAnswer[] {
    const answers = this.#next.map(({ answer }) => answer);
    this.#next = this.#next.filter(({ answer }) => !answer.ended);
    return answers.filter(({ ended }) => ended);
  }

  /**
   * Computes prompts in their order: one that was begun, then as many as fit into the step, or the beginning of one that
   * is too long. Answers with the prompt and salt of another one follow it with a copy of its keys and values: the
   * rollouts of a group share their prompt. `maxTokens`: of the step.
   */
  async compute(maxTokens: number): Promise<void> {
    let left = maxTokens;
    const [next] = this.#next;
    const begun = next ? this.#slots.occupants.indexOf(next) : -1;
    if (begun >= 0) {
      const { sequence, answer } = this.#slots.at(begun);
      const [start, end] = [sequence.computed, sequence.tokens.length];
      await this.#runs.compute(begun, [end], left);
      if (sequence.computed < end) return;
      left -= end - start;
      this.#next.shift();
      this.#running.add(answer);
    }
    const first = this.#slots.count;
    const followers = this.#takeThatFit(left);
    const targets = this.#slots.occupants.slice(first).map(({ sequence }) => sequence.tokens.length);
    await this.#runs.compute(first, targets, left);
    await this.#follow(followers);
  }

  /** Gives slots to the next prompts, as many as fit, but to one at least. Returns those that follow another, and whom. */
  #takeThatFit(maxTokens: number): Follower[] {
    const known = new Map(this.#slots.occupants.map((occupant) => [occupant.prompt, occupant]));
    const followers: Follower[] = [];
    const first = this.#slots.count;
    let longest = 0;
    for (let [next] = this.#next; next; [next] = this.#next) {
      const leader = known.get(next.prompt);
      if (leader) followers.push({ occupant: next, leader });
      else {
        const { sequence, answer } = next;
        const slot = this.#slots.append(next);
        this.#slots.reserve(slot);
        this.#slots.loadPrefix(slot);
        longest = Math.max(longest, sequence.tokens.length - sequence.computed);
        if ((slot + 1 - first) * longest > Math.min(maxTokens, this.#runs.mostTokens)) {
          if (slot > first) this.#slots.release(slot);
          break;
        }
        known.set(next.prompt, next);
        this.#running.add(answer);
      }
      this.#next.shift();
    }
    return followers;
  }

  /** Computes the last token of prompts that copy their other tokens from a leader. Followers of a cancelled leader wait. */
  async #follow(followers: readonly Follower[]): Promise<void> {
    const first = this.#slots.count;
    const isComputed = ({ occupant: { sequence }, leader }: Follower) =>
      leader.sequence.computed >= sequence.promptLength - 1;
    const copies = followers.filter(isComputed);
    for (const { occupant } of copies) {
      this.#slots.append(occupant);
      this.#running.add(occupant.answer);
    }
    if (copies.length > 0) this.#slots.reserve(first);
    for (const [index, { leader }] of copies.entries()) this.#slots.copyPrompt(first + index, leader);
    await this.#runs.computeAll(
      first,
      copies.map(({ occupant: { sequence } }) => sequence.tokens.length),
    );
    const others = followers.filter((follower) => !copies.includes(follower));
    this.#next.unshift(...others.map(({ occupant }) => occupant));
  }
}
