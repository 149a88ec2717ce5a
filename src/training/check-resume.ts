import { type Client, NotFoundError } from '../client/index.ts';
import { parseModelName } from '../contract/index.ts';
import { ResumeError } from './errors.ts';

/** Options that may be others when a run is resumed: they change how it gets on, not what comes of it. */
const free = new Set([
  'started',
  'modelAsked',
  'baseModel',
  'versions',
  'scenarioSchema',
  'changed',
  'concurrency',
  'jobTimeoutMs',
  'keepCheckpoints',
  'budget',
]);

type Config = Record<string, unknown>;

/**
 * @param isSchedule Whether `config` is worked out step by step, from the number of steps too.
 * @throws ResumeError that names each option that is not what the run began with.
 */
export function checkResume(
  was: Config,
  is: Config,
  { path, isSchedule }: { path: string; isSchedule: boolean },
): void {
  const differences = Object.keys(is)
    .filter((name) => !free.has(name) && name !== 'steps' && name !== 'model')
    // A schedule over more steps is another one from its beginning on.
    .filter((name) => !(name === 'config' && isSchedule && was.steps !== is.steps))
    .map((name) => [name, shown(was[name]), shown(is[name])] as const)
    .filter(([, before, now]) => before !== now)
    .map(([name, before, now]) => `\`${name}\` was ${before} and is ${now}`);
  if (pathOf(was.model) !== pathOf(is.model))
    differences.unshift(`\`model\` was ${shown(was.model)} and is ${shown(is.model)}`);
  if (Number(is.steps) < Number(was.steps))
    differences.push(`\`steps\` was ${shown(was.steps)} and is ${shown(is.steps)}`);
  if (differences.length === 0) return;
  throw new ResumeError(
    `The run in ${path} was asked for otherwise: ${differences.join('; ')}. Ask for the same (\`steps\` may grow), or ` +
      'begin another run.',
  );
}

/** @throws ResumeError where the service no longer has the model that the run trains. */
export async function checkModelIsThere(
  { model, modelId }: Config,
  { client, path, signal }: { client: Client; path: string; signal: AbortSignal | undefined },
): Promise<void> {
  if (typeof modelId !== 'string') return;
  try {
    await client.models.checkpoints.list(modelId, { limit: 1, signal });
  } catch (cause) {
    if (!(cause instanceof NotFoundError)) throw cause;
    throw new ResumeError(
      `The run in ${path} trains ${pathOf(model)} (${modelId}), which the service no longer has: it was deleted, or ` +
        'this is another service, one with another data folder, or a key of another entity. Go on with the service, ' +
        'data folder and key that the run began with; where the model was deleted, begin another run.',
      { cause },
    );
  }
}

const shown = (value: unknown) => JSON.stringify(value) ?? 'absent';

function pathOf(model: unknown): string {
  const parsed = parseModelName(String(model));
  return parsed ? `${parsed.entity}/${parsed.project}/${parsed.name}` : String(model);
}
