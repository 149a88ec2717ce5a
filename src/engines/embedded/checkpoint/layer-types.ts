import type { JsonFields } from '../../../language/index.ts';

/**
 * Whether each layer is of the first kind of two, by `layer_types`; undefined if the configuration has no such list.
 * @throws LanguageError for another kind, or another number of layers than `num_hidden_layers`
 */
export function layersOfType(
  config: JsonFields,
  [first, second]: readonly [first: string, second: string],
  layers: number,
): boolean[] | undefined {
  if (config.get('layer_types') === undefined) return undefined;
  const types = config.list('layer_types');
  if (!types.every((type) => type === first || type === second))
    throw config.unsupported('layer_types', `martingale runs layers of "${first}" and "${second}".`);
  if (types.length !== layers)
    throw config.wrong('layer_types', `a list of ${layers} layers (num_hidden_layers)`);
  return types.map((type) => type === first);
}
