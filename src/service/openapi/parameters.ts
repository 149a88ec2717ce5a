import { requestLimits } from '../../contract/index.ts';
import { maxKey } from '../idempotency.ts';
import { maxProject, maxRequestId, projectPattern, requestIdPattern } from '../telemetry.ts';
import type { Operation } from './operations.ts';
import { schemaOf } from './schemas.ts';

const header = (name: string, description: string, example: string, schema: object) => ({
  name,
  in: 'header',
  required: false,
  description,
  example,
  schema: { type: 'string', ...schema },
});
/** The characters a header value can contain, without white space at its ends. */
const printableText = '^[!-~]([ -~]*[!-~])?$';
const inPath = (name: string, schema: object, description: string, example: unknown) => ({
  name,
  in: 'path',
  required: true,
  description,
  schema,
  example,
});
const uuid = { type: 'string', format: 'uuid' };
const project =
  'The project of the request, as <team>/<project>, for the log. Other forms, such as the proj_... of OpenAI clients, are ignored, and so is OpenAI-Project if Compat-Project is valid; the log shows ignored values.';

/**
 * Bounds of a header that is ignored, not refused, if it does not match; `x-` keeps validators from
 * refusing it.
 */
const ignoredBeyond = (bounds: { pattern: string; maxLength: number }) => ({
  'x-pattern': bounds.pattern,
  'x-maxLength': bounds.maxLength,
});
const projectSchema = ignoredBeyond({ pattern: projectPattern.source, maxLength: maxProject });

/** Parameters shared by operations, by their name in the document. */
export const sharedParameters: Record<string, object> = {
  RequestId: header(
    'X-Request-Id',
    'An id of 1 to 128 letters, digits, dots, underscores and hyphens for the answer and the log. Default, also for other forms: a generated id.',
    'run-7-step-3',
    ignoredBeyond({ pattern: requestIdPattern.source, maxLength: maxRequestId }),
  ),
  Project: header('Compat-Project', project, 'shop/desk', projectSchema),
  ProjectAlias: header(
    'OpenAI-Project',
    `An alias of Compat-Project. ${project}`,
    'shop/desk',
    projectSchema,
  ),
  IdempotencyKey: header(
    'Idempotency-Key',
    '1 to 255 characters. A repeat with the same key and body gets the first answer, also after a restart; another body is a 409. Keys are kept as long as their model, keys of uploads for 30 days.',
    'job-42',
    { pattern: printableText, minLength: 1, maxLength: maxKey },
  ),
  LastEventId: header(
    'Last-Event-ID',
    'Id of the last received event: the stream continues after it. Takes precedence over `after`.',
    'a1c5f7e2-0b3d-4e8f-9a6b-4d2c1e0f9b13',
    { format: 'uuid', minLength: 36, maxLength: 36 },
  ),
  ModelId: inPath('model_id', uuid, "A model's id.", '0e0b8a55-52a5-4b6b-a94c-7d5b9b4a4a10'),
  JobId: inPath(
    'job_id',
    uuid,
    "A training job's id, of either kind.",
    '7d1a9c1e-3f2a-4c56-9d0e-0c2b8f6f1f11',
  ),
  Model: inPath(
    'model',
    { type: 'string', minLength: 1, maxLength: requestLimits.model },
    'The name of a model in chat completions.',
    'local/desk/agent',
  ),
  Step: inPath('step', { type: 'integer', minimum: 0 }, "A checkpoint's step.", 1),
};

const pathParameters: Record<string, string> = {
  model: 'Model',
  model_id: 'ModelId',
  job_id: 'JobId',
  step: 'Step',
};
const headerParameters = { 'Idempotency-Key': 'IdempotencyKey', 'Last-Event-ID': 'LastEventId' } as const;
const queryExamples: Record<string, unknown> = { after: '', limit: 20, order: 'asc' };

export function parametersOf({ path, query, headers }: Operation): object[] {
  const inPathNames = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => pathParameters[name] ?? name);
  const inQuery = Object.entries(query?.shape ?? {}).map(([name, schema]) => {
    const { description, ...rest } = asRecord(schemaOf(schema));
    return { name, in: 'query', required: false, description, schema: rest, example: queryExamples[name] };
  });
  const named = (headers ?? []).map((name) => headerParameters[name]);
  const references = [...inPathNames, ...named, 'RequestId', 'Project', 'ProjectAlias'];
  return [...inQuery, ...references.map((name) => ({ $ref: `#/components/parameters/${name}` }))];
}

const asRecord = (schema: object): Record<string, unknown> => ({ ...schema });
