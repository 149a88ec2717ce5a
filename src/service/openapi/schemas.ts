import { z } from 'zod';
import * as contract from '../../contract/index.ts';

const reference = (id: string) => `#/components/schemas/${id}`;

/** A reference where the contract names the schema, else the schema itself, in which named ones are references. */
export function schemaOf(schema: z.core.$ZodType): object {
  const id = z.globalRegistry.get(schema)?.id;
  if (id !== undefined) return { $ref: reference(id) };
  const { $schema: _, $defs: __, ...rest } = z.toJSONSchema(schema, { io: 'input' });
  return JSON.parse(JSON.stringify(rest).replaceAll('#/$defs/', '#/components/schemas/'));
}

/** Every schema that the contract names. */
export function componentSchemas(): Record<string, object> {
  const named = z.registry<{ id: string }>();
  for (const schema of Object.values(contract))
    if (schema instanceof z.ZodType) {
      const id = z.globalRegistry.get(schema)?.id;
      if (id !== undefined) named.add(schema, { id });
    }
  const { schemas } = z.toJSONSchema(named, { io: 'input', uri: reference });
  return Object.fromEntries(
    Object.entries(schemas).map(([id, { $schema: _, $id: __, ...schema }]) => [id, schema]),
  );
}
