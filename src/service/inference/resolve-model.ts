import { LRUCache } from 'lru-cache';
import { formatModelName, type ModelName, parseModelName } from '../../contract/index.ts';
import type { BaseModel, Engine, Weights } from '../../engines/engine.ts';
import type { Access } from '../access.ts';
import { ServiceError } from '../errors.ts';
import type { DataFiles } from '../store/files.ts';
import type { Store } from '../store/store.ts';

/** What a request's model name stands for just now. */
export interface ResolvedModel {
  /** Whose model it is; null for a base model, which is there for all. */
  entity: string | null;
  /** The name with its step, or the base model's: how a client learns the policy version of a sample. */
  pinnedName: string;
  base: BaseModel;
  weights: Weights;
}

const cachedNames = 1024;

const emptyCache = () => new LRUCache<string, ResolvedModel>({ max: cachedNames });

/** Finds the weights of a model name. An unknown name is an error: to answer from the base model would train on nothing. */
export class ModelResolver {
  readonly #engine: Engine;
  readonly #store: Store;
  readonly #files: DataFiles;
  #known = emptyCache();

  constructor(engine: Engine, store: Store, files: DataFiles) {
    this.#engine = engine;
    this.#store = store;
    this.#files = files;
  }

  /** To be called whenever a model or a checkpoint comes or goes. */
  forget(): void {
    // Another one, not the same one emptied: what is being looked up just now goes into the old one.
    this.#known = emptyCache();
  }

  /**
   * `name` absent means the engine's first base model; the response names it. A name that holds another entity than
   * the key's is refused before anything is looked up, so that nothing, the time included, tells what is there.
   */
  async resolve(name: string | undefined, access: Access): Promise<ResolvedModel> {
    const base = this.#baseModel(name);
    if (base) return base;
    const text = name ?? '';
    const parsed = parseModelName(text);
    if (!parsed || !access.sees(parsed.entity)) throw unknownModel(text);
    const known = this.#known.get(text);
    if (known) return known;
    const cache = this.#known;
    const resolved = await this.#trained(text, parsed);
    // A name that changed its meaning in the meantime goes into a cache that nobody reads any more: see `forget`.
    cache.set(resolved.pinnedName, resolved);
    cache.set(text, resolved);
    return resolved;
  }

  #baseModel(name: string | undefined): ResolvedModel | undefined {
    const [first] = this.#engine.baseModels;
    const base = name === undefined ? first : this.#engine.baseModels.find(({ id }) => id === name);
    return base && { entity: null, pinnedName: base.id, base, weights: { baseModel: base.id, folder: null } };
  }

  async #trained(text: string, name: ModelName): Promise<ResolvedModel> {
    const model = await this.#store.modelNamed(name.entity, name.project, name.name);
    if (!model) throw unknownModel(text);
    const base = this.#engine.baseModels.find(({ id }) => id === model.baseModel);
    if (!base) throw unknownModel(text, `its base model ${model.baseModel} is not one of this engine`);
    const checkpoint =
      name.step === undefined
        ? await this.#store.newestCheckpoint(model.id)
        : await this.#store.checkpoint(model.id, name.step);
    if (!checkpoint) throw unknownStep(text, name.step);
    const folder = checkpoint.folder === null ? null : this.#files.absolute(checkpoint.folder);
    const { entity, project } = model;
    return {
      entity,
      pinnedName: formatModelName({ entity, project, name: model.name, step: checkpoint.step }),
      base,
      weights: { baseModel: base.id, folder },
    };
  }
}

const noSuchName = 'there is no model of this name';

export function unknownModel(name: string, reason = noSuchName): ServiceError {
  return new ServiceError(
    404,
    'model_not_found',
    `The model ${JSON.stringify(name)} does not exist: ${reason}. GET /v1/models lists those that do.`,
  );
}

export const unknownStep = (name: string, step: number | undefined): ServiceError =>
  unknownModel(name, `the model has no checkpoint of step ${step}`);
