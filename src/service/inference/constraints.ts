import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { MartingaleError } from '../../contract/index.ts';
import type { Constraint, Engine } from '../../engines/engine.ts';
import { ServiceError } from '../errors.ts';
import type { Store } from '../store/store.ts';
import { allowsCalls, type ConstraintFields, hashConstraint, toConstraint } from './constraint.ts';

/** A constraint that the engine accepted and the store knows. */
export interface CheckedConstraint {
  constraint: Constraint | null;
  hash: string | null;
  allowsCalls: boolean;
}

const cachedConstraints = 1024;

const schema = z.record(z.string(), z.unknown());
const constraintSchema: z.ZodType<Constraint> = z.object({
  branches: z.array(
    z.object({
      open: z.number().int().nullable(),
      grammar: z.discriminatedUnion('type', [
        z.object({ type: z.literal('text') }),
        z.object({ type: z.literal('json_object') }),
        z.object({ type: z.literal('json_schema'), schema }),
        z.object({ type: z.literal('regex'), pattern: z.string() }),
        z.object({ type: z.literal('choice'), choices: z.array(z.string()) }),
        z.object({
          type: z.literal('named_json'),
          alternatives: z.array(z.object({ name: z.string(), schema })),
        }),
      ]),
      repeat: z.boolean(),
    }),
  ),
});

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
  check(baseModel: string, fields: ConstraintFields): Promise<CheckedConstraint> {
    const key = JSON.stringify([
      baseModel,
      fields.tools,
      fields.tool_choice,
      fields.parallel_tool_calls,
      fields.response_format,
      fields.structured_outputs,
    ]);
    const known = this.#checked.get(key);
    if (known) return known;
    const checking = this.#check(baseModel, fields);
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

  async #check(baseModel: string, fields: ConstraintFields): Promise<CheckedConstraint> {
    const format = this.#engine.chatFormat(baseModel);
    const constraint = toConstraint(fields, format);
    if (constraint === null) return { constraint, hash: null, allowsCalls: false };
    try {
      await this.#engine.checkConstraint(baseModel, constraint);
    } catch (cause) {
      if (!MartingaleError.isInstance(cause)) throw cause;
      throw new ServiceError(422, 'unsupported_constraint', cause.message, { cause });
    }
    const { hash, json } = hashConstraint(constraint);
    await this.#store.putConstraint(hash, json);
    return { constraint, hash, allowsCalls: allowsCalls(constraint, format) };
  }
}
