import { LRUCache } from 'lru-cache';
import { formatModelName, parseModelName } from '../../contract/index.ts';
import type { BaseModel, Engine, Weights } from '../../engines/engine.ts';
import { ServiceError } from '../errors.ts';
import type { DataFiles } from '../store/files.ts';
import type { Store } from '../store/store.ts';

/** What a request's model name stands for just now. */
export interface ResolvedModel {
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

  /** `name` absent means the engine's first base model; the response names it. */
  async resolve(name: string | undefined): Promise<ResolvedModel> {
    const known = name === undefined ? undefined : this.#known.get(name);
    if (known) return known;
    const cache = this.#known;
    const resolved = this.#baseModel(name) ?? (await this.#trained(name ?? ''));
    // A name that changed its meaning in the meantime goes into a cache that nobody reads any more: see `forget`.
    cache.set(resolved.pinnedName, resolved);
    if (name !== undefined) cache.set(name, resolved);
    return resolved;
  }

  #baseModel(name: string | undefined): ResolvedModel | undefined {
    const [first] = this.#engine.baseModels;
    const base = name === undefined ? first : this.#engine.baseModels.find(({ id }) => id === name);
    return base && { pinnedName: base.id, base, weights: { baseModel: base.id, folder: null } };
  }

  async #trained(text: string): Promise<ResolvedModel> {
    const name = parseModelName(text);
    const model = name && (await this.#store.modelNamed(name.entity, name.project, name.name));
    if (!model) throw unknownModel(text, 'there is no model of this name');
    const base = this.#engine.baseModels.find(({ id }) => id === model.baseModel);
    if (!base) throw unknownModel(text, `its base model ${model.baseModel} is not one of this engine`);
    const checkpoint =
      name.step === undefined
        ? await this.#store.newestCheckpoint(model.id)
        : await this.#store.checkpoint(model.id, name.step);
    if (!checkpoint) throw unknownModel(text, `the model has no checkpoint of step ${name.step}`);
    const folder = checkpoint.folder === null ? null : this.#files.absolute(checkpoint.folder);
    const { entity, project } = model;
    return {
      pinnedName: formatModelName({ entity, project, name: model.name, step: checkpoint.step }),
      base,
      weights: { baseModel: base.id, folder },
    };
  }
}

function unknownModel(name: string, reason: string): ServiceError {
  return new ServiceError(
    404,
    'model_not_found',
    `The model ${JSON.stringify(name)} does not exist: ${reason}. GET /v1/models lists those that do.`,
  );
}
