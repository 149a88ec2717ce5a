/** A field whose values differ between configurations; undefined where it is not set. */
interface Difference {
  /** `config.learning_rate` */
  path: string;
  values: (string | undefined)[];
}

/** What says when and where a run ran, not how. `changed` repeats other fields. */
const ignored = new Set(['started', 'modelId', 'changed', 'scenarioSchema', 'runDirectory']);

/** The fields that differ, in the order of the first configuration. */
export function differencesOf(configs: readonly unknown[]): Difference[] {
  const flat = configs.map((config) => flatten(config));
  const paths = new Set(flat.flatMap((fields) => [...fields.keys()]));
  return [...paths].flatMap((path) => {
    const values = flat.map((fields) => fields.get(path));
    return new Set(values).size > 1 ? [{ path, values }] : [];
  });
}

/** The leaves of an object by their path; a list is a leaf. */
function flatten(value: unknown, path = ''): Map<string, string> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return new Map(value === undefined || value === null ? [] : [[path, show(value)]]);
  return new Map(
    Object.entries(value)
      .filter(([name]) => path !== '' || !ignored.has(name))
      .flatMap(([name, inner]) => [...flatten(inner, path === '' ? name : `${path}.${name}`)]),
  );
}

const show = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));
