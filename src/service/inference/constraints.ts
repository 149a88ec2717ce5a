import crypto from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { MartingaleError } from '../../contract/index.ts';
import type { BaseModel, Caller, Engine } from '../../engines/engine.ts';
import {
  bodyPath,
  type Constraint,
  type ConstraintFields,
  contentLocation,
  type Grammar,
  hashConstraint,
  type Location,
  toConstraint,
} from '../../language/index.ts';
import { SharedWork } from '../../util/shared-work.ts';
import { RequestValidationError } from '../errors.ts';
import { isEngineFault } from '../faults.ts';
import { checkShape } from '../json/read-text.ts';
import type { Store } from '../store/store.ts';
import { valueAt } from '../zod-issues.ts';
import { constrainingField, mayBeFree, mayConstrain, refuseLongFields } from './constraint-fields.ts';

/** A constraint that the engine accepted. */
interface CheckedConstraint {
  constraint: Constraint;
  hash: string;
  /** Its JSON. */
  json: string;
}

/** Finds the constraints that an entity's replies were sampled under. */
export interface KnownConstraints<Found = Constraint> {
  find(hash: string): Promise<Found | undefined>;
}

/** Size of a cache in characters of JSON; parsed constraints take about ten times as much memory. */
const cachedCharacters = 2 ** 22;
/** Overhead of a cache entry, in characters. */
const charactersOfEntry = 512;

const dayMs = 86_400_000;

/** Builds, checks and stores constraints, each only once: a run sends the same few thousands of times. */
export class Constraints {
  readonly #engine: Engine;
  readonly #store: Store;
  /** By a hash of the request's fields, which may be long. */
  readonly #checked = new LRUCache<string, CheckedConstraint>({
    maxSize: cachedCharacters,
    sizeCalculation: ({ json }) => json.length + charactersOfEntry,
  });
  readonly #checking = new SharedWork<string, CheckedConstraint | null>();
  /** By entity and hash. */
  readonly #found = new LRUCache<string, Constraint>({ maxSize: cachedCharacters });

  constructor(engine: Engine, store: Store) {
    this.#engine = engine;
    this.#store = store;
  }

  /**
   * Builds the constraint of a request and checks it with the engine; null if replies are free. Rejects
   * with a 422 if the engine cannot enforce it. `caller`: the tenant the work counts for, and a signal that
   * aborts when it stops waiting.
   */
  async check(
    base: BaseModel,
    fields: ConstraintFields,
    { tenant, signal }: Caller = {},
  ): Promise<CheckedConstraint | null> {
    if (!mayConstrain(fields)) return null;
    refuseLongFields(fields);
    const json = JSON.stringify([
      base.id,
      fields.tools,
      fields.tool_choice,
      fields.function_call,
      fields.parallel_tool_calls,
      fields.response_format,
      fields.structured_outputs,
      fields.reasoning_effort,
      fields.continue_final_message,
    ]);
    const key = crypto.hash('sha256', json, 'base64');
    const known = this.#checked.get(key);
    if (known) return known;
    const begin = async (shared: AbortSignal) => {
      const checked = await this.#check(base, fields, { tenant, signal: shared });
      if (checked) this.#checked.set(key, checked);
      return checked;
    };
    return this.#checking.join(key, begin, signal);
  }

  /**
   * Stores a constraint so that its replies can be trained on. Call it before sampling. `entity`: the
   * owner of the replies; null if entities are not separated.
   */
  async keep({ hash, json }: CheckedConstraint, entity: string | null): Promise<void> {
    const now = Date.now();
    const usedAt = await this.#store.constraintUsedAt(hash, entity);
    // `Math.abs` also covers a clock that was set back.
    if (usedAt !== undefined && Math.abs(now - usedAt) < dayMs) return;
    try {
      await this.#store.keepConstraint({ hash, json, usedAt: now }, entity);
    } catch (error) {
      // A stored constraint may be sampled under even when the disk is not writable.
      if ((await this.#store.constraint(hash, entity)) === undefined) throw error;
    }
  }

  /**
   * The constraint with this hash, or undefined if no reply of this entity was sampled under it. A null
   * `entity` searches all entities.
   */
  async find(hash: string, entity: string | null = null): Promise<Constraint | undefined> {
    // Names of entities contain no line break.
    const key = `${entity ?? ''}\n${hash}`;
    const known = this.#found.get(key);
    if (known) return known;
    const json = await this.#store.constraint(hash, entity);
    if (json === undefined) return undefined;
    const constraint: Constraint = JSON.parse(json);
    this.#found.set(key, constraint, { size: json.length + charactersOfEntry });
    return constraint;
  }

  /** The constraints visible to an entity; with null, all of them. */
  knownTo(entity: string | null): KnownConstraints {
    return { find: (hash) => this.find(hash, entity) };
  }

  async #check(
    { id: baseModel, contextLength, isRemote = false }: BaseModel,
    fields: ConstraintFields,
    caller: Caller,
  ): Promise<CheckedConstraint | null> {
    const format = this.#engine.chatFormat(baseModel);
    const constraint = toConstraint(fields, {
      format,
      contextLength,
      engine: this.#engine.name,
      parseJson: parseFieldJson,
    });
    if (constraint === null || (isRemote && mayBeFree(constraint, fields))) return null;
    const refusal = await this.#refusalOf(baseModel, constraint, caller);
    if (refusal !== null && isRemote) throw refused(fields, constrainingField(fields), refusal);
    if (refusal !== null)
      throw await this.#validationError(baseModel, constraint, { fields, caller, refusal });
    return {
      constraint,
      hash: hashConstraint(constraint),
      json: JSON.stringify(constraint),
    };
  }

  /**
   * The engine's reason to refuse a constraint, or null if it accepts it. Throws if the engine itself
   * failed.
   */
  async #refusalOf(
    baseModel: string,
    constraint: Constraint,
    caller: Caller,
  ): Promise<MartingaleError | null> {
    try {
      await this.#engine.checkConstraint(baseModel, constraint, caller);
      return null;
    } catch (cause) {
      if (MartingaleError.isInstance(cause) && !isEngineFault(cause)) return cause;
      throw cause;
    }
  }

  /**
   * Finds the field to blame: the one that constrains the text, if it is refused on its own too, else the
   * tools.
   */
  async #validationError(
    baseModel: string,
    { grammar }: Constraint,
    { fields, caller, refusal }: { fields: ConstraintFields; caller: Caller; refusal: MartingaleError },
  ): Promise<Error> {
    const content = contentOf(grammar);
    const own = content ? await this.#refusalOf(baseModel, { grammar: content }, caller) : null;
    const isAmbiguous = own === null && refusal.code === 'calls_ambiguous';
    const location = isAmbiguous ? ['tool_choice'] : own === null ? ['tools'] : contentLocation(fields);
    return refused(fields, location, own ?? refusal);
  }
}

function refused(fields: ConstraintFields, location: Location, cause: MartingaleError): Error {
  const input = valueAt(fields, location);
  const issue = {
    loc: bodyPath(location),
    msg: cause.message,
    type: 'unsupported_constraint',
    input,
  };
  return new RequestValidationError([issue], { cause });
}

/** The part of a grammar that is for text outside of calls; null if there is none. */
function contentOf(grammar: Grammar): Grammar | null {
  if (grammar.type === 'named_json') return null;
  return grammar.type === 'text_or_calls' ? grammar.content : grammar;
}

/** Parses JSON inside a text field; undefined if it is invalid. */
function parseFieldJson(text: string, location: Location): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  checkShape(value, { at: bodyPath(location) });
  return value;
}
