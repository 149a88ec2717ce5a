import { type Client, isRequestError } from '../client/index.ts';
import { formatModelName, MartingaleError, type Model } from '../contract/index.ts';
import { nearNames } from '../util/near-names.ts';

/** A model of a service, as the user has named it. */
interface FoundModel {
  /** Full name that chat requests take: `entity/project/name`, with `:stepN` if a step was named, or a base model. */
  name: string;
  /** The step that was named. */
  step: number | undefined;
}

/** A trained model, with its record. */
interface FoundTrainedModel extends FoundModel {
  model: Model;
}

/** Most names that a message lists. */
const listed = 10;

/** Parts of a name: `scheme:///` is dropped, as the service does. */
const namePattern = /^(?:[a-z][a-z0-9+.-]*:\/\/\/)?(.+?)(?::step(\d+))?$/is;

/**
 * The model that a user means: `project/model`, `entity/project/model`, either with `:stepN`, or a base model.
 * @throws MartingaleError of code `model_not_found`, which lists names that are close, or the steps that are there; of code
 *   `ambiguous_model` for a name that several entities have.
 */
export async function findModel(client: Client, text: string, signal?: AbortSignal): Promise<FoundModel> {
  const names = await namesOf(client, signal);
  // A service that lists no models takes names as they are.
  if (names === null) return { name: text, step: undefined };
  const { name, step } = choose(text, names);
  if (step !== undefined) await findTrainedModel(client, text, signal);
  return { name, step };
}

/** Like `findModel`, for what only trained models have: checkpoints and jobs. */
export async function findTrainedModel(
  client: Client,
  text: string,
  signal?: AbortSignal,
): Promise<FoundTrainedModel> {
  const models: Model[] = [];
  for await (const model of client.models.list({ limit: 100, signal })) models.push(model);
  const { name, path, step } = choose(text, models.map(nameOf));
  const model = models.find((one) => nameOf(one) === path);
  if (!model) throw notFound(text, models.map(nameOf));
  if (step !== undefined) await checkStep(client, { model, step, signal });
  return { name, step, model };
}

export const nameOf = ({ entity, project, name }: Model): string =>
  formatModelName({ entity, project, name });

async function namesOf(client: Client, signal: AbortSignal | undefined): Promise<string[] | null> {
  try {
    return (await client.inferenceModels.list({ signal })).map(({ id }) => id);
  } catch (error) {
    if (isRequestError(error) && [404, 405, 501].includes(error.status ?? 0)) return null;
    throw error;
  }
}

/** The one of the full names that is meant. A base model may have a slash too, so a whole name counts first. */
function choose(text: string, names: readonly string[]): FoundModel & { path: string } {
  if (names.includes(text)) return { name: text, path: text, step: undefined };
  const [, asked = '', stepText] = namePattern.exec(text) ?? [];
  const found = names.filter((name) => [name, withoutEntity(name)].includes(asked));
  const path = found.includes(asked) ? asked : found[0];
  if (path === undefined) throw notFound(text, names);
  if (path !== asked && found.length > 1)
    throw new MartingaleError(
      'ambiguous_model',
      `${asked} may be ${found.join(' or ')}: name its entity too.`,
    );
  if (stepText === undefined) return { name: path, path, step: undefined };
  return { name: `${path}:step${stepText}`, path, step: Number(stepText) };
}

/** `project/name` of `entity/project/name`; undefined for names of another form. */
const withoutEntity = (name: string): string | undefined => /^[^/]+\/([^/]+\/[^/]+)$/.exec(name)?.[1];

function notFound(text: string, names: readonly string[]): MartingaleError {
  const [, asked = text] = namePattern.exec(text) ?? [];
  const short = new Map(names.map((name) => [withoutEntity(name) ?? name, name]));
  const near = nearNames(asked, [...new Set([...short.keys(), ...names])]);
  const meant = [...new Set(near.map((name) => short.get(name) ?? name))];
  const guess = meant.length > 0 ? ` Did you mean ${meant.join(' or ')}?` : '';
  const more = names.length > listed ? ` and ${names.length - listed} more (\`martingale models\`)` : '';
  const all =
    names.length > 0
      ? ` The service has ${names.slice(-listed).join(', ')}${more}.`
      : ' The service has no models yet.';
  return new MartingaleError(
    'model_not_found',
    `There is no model ${text}: pass project/model, entity/project/model, either with :stepN, or a base model.${guess}${all}`,
  );
}

async function checkStep(
  client: Client,
  { model, step, signal }: { model: Model; step: number; signal: AbortSignal | undefined },
): Promise<void> {
  const steps: number[] = [];
  for await (const one of client.models.checkpoints.list(model.id, { limit: 100, signal })) {
    if (one.step === step) return;
    steps.push(one.step);
  }
  if (steps.length === 0)
    throw new MartingaleError(
      'model_not_found',
      `${nameOf(model)} has no checkpoints, so it has no step ${step}.`,
    );
  const [first, last] = [steps[0], steps.at(-1)];
  const known =
    steps.length <= listed
      ? `step${steps.length === 1 ? '' : 's'} ${steps.join(', ')}`
      : `${steps.length} steps from ${first} to ${last}`;
  throw new MartingaleError('model_not_found', `${nameOf(model)} has no step ${step}, but ${known}.`);
}
