import type { ResponseFormat, Tool } from '../contract/index.ts';
import { unenforcedOf } from '../language/basics.ts';
import { isObject } from '../util/json.ts';
import { warn } from '../util/warning.ts';

const warned = new Set<string>();
const checked = new WeakSet<object>();

/**
 * Warns once of each tool or response format whose schema has keywords or formats that JSON Schema does not define: they
 * are annotations, so nothing of them is enforced.
 */
export function warnOfUnenforced(
  tools: readonly Tool[] | undefined,
  format: ResponseFormat | null | undefined,
): void {
  for (const { function: called } of tools ?? []) warnOf(`The tool "${called.name}"`, called.parameters);
  if (!format || format.type === 'text') return;
  if (format.type === 'json_object') warnOf('The response format', format.schema);
  else warnOf(`The response format "${format.json_schema.name}"`, format.json_schema.schema);
}

function warnOf(what: string, schema: unknown): void {
  if (!isObject(schema)) return;
  // The schema itself may be a copy of each call's own.
  const known = isObject(schema.properties) ? schema.properties : schema;
  if (checked.has(known)) return;
  checked.add(known);
  const unenforced = unenforcedOf(schema);
  const message = `${what} has a schema with ${unenforced.join(', ')}. JSON Schema gives them no meaning, so they are not enforced: replies may have any value there.`;
  if (unenforced.length === 0 || warned.has(message)) return;
  warned.add(message);
  warn('martingale_schema_unenforced', message);
}
