import { checkArgument } from '../util/option-names.ts';
import type { Engine, Weights } from './engine.ts';
import { EngineError } from './engine.ts';

/**
 * Several engines as one: the base model of a request says which engine it is for. Closing it closes all.
 *
 * @throws EngineError (`bad_option`) when two engines have a base model of the same name.
 */
export function combineEngines(engines: readonly Engine[]): Engine {
  checkArgument('engines', engines, 'list');
  const byBaseModel = new Map<string, Engine>();
  for (const engine of engines)
    for (const { id } of engine.baseModels) {
      if (byBaseModel.has(id))
        throw new EngineError('bad_option', `Two engines have a base model ${id}. Rename one.`);
      byBaseModel.set(id, engine);
    }
  const of = (baseModel: string): Engine => {
    const engine = byBaseModel.get(baseModel);
    if (engine) return engine;
    throw new EngineError(
      'unknown_base_model',
      `Unknown base model ${baseModel}. There are ${[...byBaseModel.keys()].join(', ')}.`,
    );
  };
  const owner = ({ weights }: { weights: Weights }) => of(weights.baseModel);
  return {
    name: engines.map(({ name }) => name).join('+'),
    baseModels: engines.flatMap(({ name, baseModels }) =>
      baseModels.map((model) => ({ ...model, engine: model.engine ?? name })),
    ),
    logitsProcessors: engines.flatMap(({ logitsProcessors }) => logitsProcessors),
    tokenizer: (baseModel) => of(baseModel).tokenizer(baseModel),
    chatFormat: (baseModel) => of(baseModel).chatFormat(baseModel),
    sharedLanguage: (baseModel) => of(baseModel).sharedLanguage?.(baseModel),
    checkConstraint: async (baseModel, ...rest) => of(baseModel).checkConstraint(baseModel, ...rest),
    generate: async (request, onDelta) => owner(request).generate(request, onDelta),
    beamSearch: async (request) => owner(request).beamSearch(request),
    scorePrompt: async (request) => owner(request).scorePrompt(request),
    encodeReplies: async (baseModel, ...rest) => of(baseModel).encodeReplies(baseModel, ...rest),
    train: async (request) => of(request.from.baseModel).train(request),
    checkTeacher: (teacher, student) => {
      const [engine, trained] = [of(teacher), of(student)];
      if (engine === trained) return engine.checkTeacher?.(teacher, student);
      throw new EngineError(
        'bad_reference',
        `${teacher} is on the engine ${engine.name}${engine.name === trained.name ? ', on another server,' : ''} and ${student} on ${trained.name}, which cannot score with it. A teacher must be on the engine of its student.`,
      );
    },
    exportWeights: async (weights, ...rest) => of(weights.baseModel).exportWeights(weights, ...rest),
    drop: async (weights) => of(weights.baseModel).drop(weights),
    check: async () => void (await Promise.all(engines.map((engine) => engine.check?.()))),
    // Until all have ended, also when one cannot.
    async close() {
      const closed = await Promise.allSettled(engines.map((engine) => engine.close()));
      for (const one of closed) if (one.status === 'rejected') throw one.reason;
    },
  };
}
