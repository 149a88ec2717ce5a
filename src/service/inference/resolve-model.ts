import { LRUCache } from 'lru-cache';
import { formatModelName, type ModelName, parseModelName } from '../../contract/index.ts';
import type { BaseModel, Engine, Weights } from '../../engines/engine.ts';
import { type ChatFormat, ConversationRenderer, type Tokenizer } from '../../language/index.ts';
import type { Access } from '../access.ts';
import { ServiceError } from '../errors.ts';
import type { DataFiles } from '../store/files.ts';
import type { CheckpointRecord, ModelRecord, Store } from '../store/store.ts';
import { TokenTexts } from './token-report.ts';

/** What a model name in a request currently refers to. */
interface ResolvedModel {
  /** The model's entity; null for a base model, which every key can use. */
  entity: string | null;
  /** The name with its step, or the base model's. It tells the client the policy version of a sample. */
  pinnedName: string;
  base: BaseModel;
  /** The tools of its base model. */
  tools: BaseModelTools;
  weights: Weights;
}

const cachedNames = 1024;

const emptyCache = () => new LRUCache<string, ResolvedModel>({ max: cachedNames });

/**
 * Finds the weights of a model name. An unknown name is an error: answers of a base model in its place
 * would train nothing.
 */
export class ModelResolver {
  readonly #engine: Engine;
  readonly #store: Store;
  readonly #files: DataFiles;
  readonly #tools: (baseModel: string) => BaseModelTools;
  #known = emptyCache();

  constructor(engine: Engine, store: Store, files: DataFiles, tools: (baseModel: string) => BaseModelTools) {
    this.#engine = engine;
    this.#store = store;
    this.#files = files;
    this.#tools = tools;
  }

  /** Call this whenever a model or checkpoint is created or deleted. */
  forget(): void {
    // A new cache instead of an emptied one: lookups in progress still write into the old one.
    this.#known = emptyCache();
  }

  /**
   * Without a `name`, the engine's first base model. A name with another entity than the key's is refused
   * before any lookup, so that not even the response time shows whether it exists.
   */
  async resolve(name: string | undefined, access: Access): Promise<ResolvedModel> {
    const base = this.#baseModel(name);
    if (base) return base;
    const text = name ?? '';
    const parsed = visibleName(text, access);
    const known = this.#known.get(text);
    if (known) return known;
    const cache = this.#known;
    const resolved = await this.#trained(text, parsed);
    // If the name changed its meaning meanwhile, this cache is no longer read: see `forget`.
    cache.set(resolved.pinnedName, resolved);
    cache.set(text, resolved);
    return resolved;
  }

  /** The records of a trained model's name: of its step, or of its newest checkpoint without one. */
  find(text: string, access: Access): Promise<NamedRecords> {
    return this.#find(text, visibleName(text, access));
  }

  #baseModel(name: string | undefined): ResolvedModel | undefined {
    const [first] = this.#engine.baseModels;
    const base = name === undefined ? first : this.#engine.baseModels.find(({ id }) => id === name);
    if (!base) return undefined;
    const weights = { baseModel: base.id, folder: null };
    return { entity: null, pinnedName: base.id, base, tools: this.#tools(base.id), weights };
  }

  async #trained(text: string, name: ModelName): Promise<ResolvedModel> {
    const { model, checkpoint } = await this.#find(text, name);
    const base = this.#engine.baseModels.find(({ id }) => id === model.baseModel);
    if (!base) throw unknownModel(text, `its base model ${model.baseModel} is not one of this engine`);
    const folder = checkpoint.folder === null ? null : this.#files.checkpointPath(checkpoint.folder);
    const { entity, project } = model;
    return {
      entity,
      pinnedName: formatModelName({ entity, project, name: model.name, step: checkpoint.step }),
      base,
      tools: this.#tools(base.id),
      weights: { baseModel: base.id, folder },
    };
  }

  async #find(text: string, { entity, project, name, step }: ModelName): Promise<NamedRecords> {
    const model = await this.#store.modelNamed(entity, project, name);
    if (!model) throw unknownModel(text);
    const checkpoint = await checkpointOf(this.#store, model.id, step);
    if (!checkpoint) throw unknownModel(text, `the model has no checkpoint of step ${step}`);
    return { model, checkpoint, step };
  }
}

interface NamedRecords {
  model: ModelRecord;
  checkpoint: CheckpointRecord;
  /** The step in the name. */
  step: number | undefined;
}

/** The checkpoint of a step, or the newest without one. */
export const checkpointOf = (store: Store, modelId: string, step: number | undefined) =>
  step === undefined ? store.newestCheckpoint(modelId) : store.checkpoint(modelId, step);

/** Names of other entities are refused before any lookup. */
function visibleName(text: string, access: Access): ModelName {
  const parsed = parseModelName(text);
  if (parsed && access.sees(parsed.entity)) return parsed;
  throw unknownModel(text);
}

function unknownModel(name: string, reason?: string): ServiceError {
  const why = reason === undefined ? '' : `: ${reason}`;
  return new ServiceError(
    404,
    'model_not_found',
    `The model ${JSON.stringify(name)} does not exist${why}. GET /v1/models lists the models.`,
  );
}

/** Turns the messages of a base model into tokens and back. */
export interface BaseModelTools {
  tokenizer: Tokenizer;
  format: ChatFormat;
  renderer: ConversationRenderer;
  texts: TokenTexts;
}

/** Creates the tools of a base model on first use and keeps them with their caches. */
export function baseModelTools(
  engine: Pick<Engine, 'tokenizer' | 'chatFormat' | 'sharedLanguage'>,
): (baseModel: string) => BaseModelTools {
  const known = new Map<string, BaseModelTools>();
  return (baseModel) => {
    let tools = known.get(baseModel);
    if (!tools) {
      const tokenizer = engine.tokenizer(baseModel);
      const format = engine.chatFormat(baseModel);
      tools = {
        tokenizer,
        format,
        renderer: new ConversationRenderer(tokenizer, format, engine.sharedLanguage?.(baseModel)),
        texts: new TokenTexts(tokenizer),
      };
      known.set(baseModel, tools);
    }
    return tools;
  };
}
