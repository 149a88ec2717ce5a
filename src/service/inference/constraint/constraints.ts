import { LRUCache } from 'lru-cache';
import { MartingaleError } from '../../../contract/index.ts';
import type { BaseModel, Constraint, Engine } from '../../../engines/engine.ts';
import { RequestValidationError } from '../../errors.ts';
import type { Store } from '../../store/store.ts';
import { allowsCalls, type ConstraintFields, hashConstraint, toConstraint } from './constraint.ts';
import { constraintSchema } from './constraint-schema.ts';
import { contentLocation } from './content-grammar.ts';

/** A constraint that the engine accepted and the store knows. */
export interface CheckedConstraint {
  constraint: Constraint | null;
  hash: string | null;
  allowsCalls: boolean;
  /** Where replies begin with reasoning: the tokens around it. */
  reasoning: { open: number; close: number } | null;
}

const cachedConstraints = 1024;

/** Builds, checks and stores constraints, each once: a run asks for the same few thousands of times. */
export class Constraints {
  readonly #engine: Engine;
  readonly #store: Store;
  readonly #checked = new LRUCache<string, Promise<CheckedConstraint>>({ max: cachedConstraints });
  readonly #stored = new LRUCache<string, Constraint>({ max: cachedConstraints });

  constructor(engine: Engine, store: Store) {
    this.#engine = engine;
    this.#store = store;
  }

  /** Rejects with a 422 where the engine cannot hold a reply to it. */
  check(base: BaseModel, fields: ConstraintFields): Promise<CheckedConstraint> {
    const key = JSON.stringify([
      base.id,
      fields.tools,
      fields.tool_choice,
      fields.parallel_tool_calls,
      fields.response_format,
      fields.structured_outputs,
      fields.reasoning_effort,
    ]);
    const known = this.#checked.get(key);
    if (known) return known;
    const checking = this.#check(base, fields);
    this.#checked.set(key, checking);
    checking.catch(() => this.#checked.delete(key));
    return checking;
  }

  /** The constraint of this hash, or undefined where nothing was ever sampled under it. */
  async find(hash: string): Promise<Constraint | undefined> {
    const known = this.#stored.get(hash);
    if (known) return known;
    const json = await this.#store.constraint(hash);
    if (json === undefined) return undefined;
    const constraint = constraintSchema.parse(JSON.parse(json));
    this.#stored.set(hash, constraint);
    return constraint;
  }

  async #check(
    { id: baseModel, contextLength }: BaseModel,
    fields: ConstraintFields,
  ): Promise<CheckedConstraint> {
    const format = this.#engine.chatFormat(baseModel);
    const constraint = toConstraint(fields, { format, contextLength, engine: this.#engine.name });
    if (constraint === null) return { constraint, hash: null, allowsCalls: false, reasoning: null };
    const complaint = await this.#complaint(baseModel, constraint);
    if (complaint !== null) throw await this.#refusal(baseModel, constraint, fields, complaint);
    const { hash, json } = hashConstraint(constraint);
    // A known one is sampled under also where nothing can be written.
    if ((await this.#store.constraint(hash)) === undefined) await this.#store.putConstraint(hash, json);
    return {
      constraint,
      hash,
      allowsCalls: allowsCalls(constraint, format),
      reasoning: constraint.reasoning ?? null,
    };
  }

  /** What the engine has against a constraint; null where it takes it. */
  async #complaint(baseModel: string, constraint: Constraint): Promise<string | null> {
    try {
      await this.#engine.checkConstraint(baseModel, constraint);
      return null;
    } catch (cause) {
      if (MartingaleError.isInstance(cause)) return cause.message;
      throw cause;
    }
  }

  /** Names the field: what the text must be, where that alone is refused too, and else the tools. */
  async #refusal(
    baseModel: string,
    { branches }: Constraint,
    fields: ConstraintFields,
    complaint: string,
  ): Promise<Error> {
    const content = branches.filter(({ open }) => open === null);
    const own = content.length > 0 ? await this.#complaint(baseModel, { branches: content }) : null;
    const location = own === null ? ['tools'] : contentLocation(fields);
    return new RequestValidationError([
      { loc: ['body', ...location], msg: own ?? complaint, type: 'unsupported_constraint' },
    ]);
  }
}
