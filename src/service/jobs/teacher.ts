import { parseModelName } from '../../contract/index.ts';
import { type BaseModel, type Engine, EngineError, type Weights } from '../../engines/engine.ts';
import { compareVocabularies, type Tokenizer, type VocabularyDifference } from '../../language/index.ts';
import type { Access } from '../access.ts';
import { invalidField, ServiceError } from '../errors.ts';
import { type BaseModelTools, checkpointOf, type ModelResolver } from '../inference/resolve-model.ts';
import type { DataFiles } from '../store/files.ts';
import type { JobRecord, Store } from '../store/store.ts';

const path = ['experimental_config', 'kl_penalty_reference_model'];

interface Teachers {
  models: ModelResolver;
  engine: Engine;
  tools: (baseModel: string) => BaseModelTools;
}

interface Student {
  base: BaseModel;
  access: Access;
}

/**
 * The name of a teacher with its step, for a job to learn from, whatever the model learns later.
 *
 * @throws ServiceError 404 if the key sees no such model; 422 if the teacher cannot score what the student samples.
 */
export async function pinTeacher(
  { models, engine, tools }: Teachers,
  name: string,
  { base: student, access }: Student,
): Promise<string> {
  const { base: teacher, pinnedName, tools: its } = await models.resolve(name, access);
  if (teacher.id === student.id) return pinnedName;
  try {
    engine.checkTeacher?.(teacher.id, student.id);
  } catch (error) {
    if (!EngineError.isInstance(error)) throw error;
    throw invalidField(path, error.message, name);
  }
  const difference = await differenceOf(its.tokenizer, tools(student.id).tokenizer);
  if (!difference) return pinnedName;
  const [own, other] = difference.texts.map((text) => (text === null ? 'missing' : JSON.stringify(text)));
  throw invalidField(
    path,
    `the vocabularies of ${teacher.id} and ${student.id} differ: token ${difference.token} is ${own} in ${teacher.id} and ${other} in ${student.id}. Choose a teacher with the vocabulary of its student`,
    name,
  );
}

const compared = new WeakMap<Tokenizer, WeakMap<Tokenizer, Promise<VocabularyDifference | null>>>();

/** As `compareVocabularies`, once for two base models. */
function differenceOf(first: Tokenizer, second: Tokenizer): Promise<VocabularyDifference | null> {
  const known = compared.get(first) ?? new WeakMap();
  compared.set(first, known);
  const difference = known.get(second) ?? compareVocabularies(first, second);
  known.set(second, difference);
  return difference;
}

/**
 * The weights of a job's teacher when the job starts.
 *
 * @throws ServiceError 422 if they were deleted meanwhile; a later model of the same name is another one.
 */
export async function teacherWeights(
  { store, files, engine }: { store: Store; files: DataFiles; engine: Engine },
  { createdAt }: JobRecord,
  name: string,
): Promise<Weights> {
  if (engine.baseModels.some(({ id }) => id === name)) return { baseModel: name, folder: null };
  const parsed = parseModelName(name);
  const model = parsed && (await store.modelNamed(parsed.entity, parsed.project, parsed.name));
  const checkpoint = model && (await checkpointOf(store, model.id, parsed.step));
  if (!checkpoint || checkpoint.createdAt > createdAt)
    throw new ServiceError(
      422,
      'checkpoint_not_found',
      `kl_penalty_reference_model: ${name} was deleted while the job was queued. Keep a teacher until its jobs have ended.`,
    );
  const { folder } = checkpoint;
  return { baseModel: model.baseModel, folder: folder === null ? null : files.checkpointPath(folder) };
}
