/** `entity/project/name`, with `:stepN` where one checkpoint is meant and without it for the newest. */
export interface ModelName {
  entity: string;
  project: string;
  name: string;
  step?: number;
}

const pattern = /^(?:[a-z][a-z0-9+.-]*:\/\/\/)?([^/:\s]+)\/([^/:\s]+)\/([^/:\s]+?)(?::step(\d+))?$/i;

/** What an entity, a project or a model may be called; a slash or a colon would make its full name ambiguous. */
export const namePartPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/**
 * Reads the name by which chat completions call a trained model. A URI prefix (`scheme:///`) is accepted and
 * dropped. Returns undefined for what has another form, as the names of base models do.
 */
export function parseModelName(text: string): ModelName | undefined {
  const match = pattern.exec(text);
  if (!match) return undefined;
  const [, entity, project, name, step] = match;
  if (entity === undefined || project === undefined || name === undefined) return undefined;
  return step === undefined ? { entity, project, name } : { entity, project, name, step: Number(step) };
}

export function formatModelName({ entity, project, name, step }: ModelName): string {
  return `${entity}/${project}/${name}${step === undefined ? '' : `:step${step}`}`;
}
