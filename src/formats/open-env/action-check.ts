import { z } from 'zod';
import { OpenEnvError } from './error.ts';
import { schemasSchema } from './protocol.ts';
import { readHttp, type ServerAddress } from './server.ts';

/**
 * Checks actions by the server's schema before they are sent. Undefined where the server has no schema, or one with
 * rules that cannot be checked here: the server then checks by itself (`VALIDATION_ERROR`).
 */
export async function actionChecker(
  server: ServerAddress,
  signal: AbortSignal | undefined,
): Promise<((action: object) => void) | undefined> {
  const schemas = await readHttp(server, { path: '/schema', schema: schemasSchema, signal });
  const schema = schemas && readSchema(schemas.action);
  if (!schema) return undefined;
  return (action) => {
    const { error } = schema.safeParse(action);
    if (!error) return;
    const [issue] = error.issues;
    throw new OpenEnvError(
      'action_invalid',
      `\`action\` returned ${JSON.stringify(action)?.slice(0, 300)}, which does not fit the server's schema: ${issue?.path.join('.')}: ${issue?.message}`,
    );
  };
}

/** Null for a schema that Zod does not know, such as one with `if` or a regular expression of Python. */
function readSchema(action: Record<string, unknown>): z.ZodType | null {
  try {
    return z.fromJSONSchema(action);
  } catch {
    return null;
  }
}
