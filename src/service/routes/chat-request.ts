import { z } from 'zod';
import {
  chatCompletionRequestSchema,
  chatFieldAliases,
  chatLimits,
  documentSchema,
  list,
  messageSchema,
  optional,
  type ParsedChatCompletionRequest,
  refusedChatFields,
  toolSchema,
  type ValidationIssue,
} from '../../contract/index.ts';
import { isObject, type JsonObject } from '../../util/json.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { readJson } from '../bodies/json-body.ts';
import { RequestValidationError, unsupportedField } from '../errors.ts';
import { inSchemaOrder } from '../jobs/read-trajectory.ts';
import { wholeBytes } from '../json/parse.ts';
import { largestIssueCount } from '../shown-issue.ts';
import { readItem, refuseUnknownFields, renameAliases, validateBody } from '../validation.ts';

type ListField = 'messages' | 'tools' | 'documents';

const fields = new Set(Object.keys(chatCompletionRequestSchema.shape));

/** The request without the elements of its long lists, which are validated one by one. */
const besideSchema = chatCompletionRequestSchema.extend({
  messages: list(z.unknown(), chatLimits.messages).min(1),
  tools: optional(list(z.unknown(), chatLimits.tools)),
  documents: optional(list(z.unknown(), chatLimits.documents)),
});

/**
 * Parses and validates a chat request. A long one is processed in time slices, with the same result and
 * errors.
 */
export async function readChatRequest(content: Buffer): Promise<ParsedChatCompletionRequest> {
  const slices = content.length > wholeBytes ? new TimeSlices() : undefined;
  const given = await readJson(content, slices);
  const body = isObject(given) ? renameAliases(given, chatFieldAliases) : given;
  if (slices?.over) await slices.pause();
  if (isObject(body)) refuseForeignFields(body);
  if (!slices || !isObject(body)) return validateBody(chatCompletionRequestSchema, body);
  refuseUnknownFields(body, fields);
  const beside = readItem(besideSchema, body, ['body']);
  const issues = 'issues' in beside ? [...beside.issues] : [];
  const read = async <Item extends z.ZodType>(name: ListField, item: Item): Promise<z.output<Item>[]> => {
    const items = await readItems(listIn(body, name), { name, item, slices });
    issues.push(...items.issues);
    return items.values;
  };
  const messages = await read('messages', messageSchema);
  const tools = await read('tools', toolSchema);
  const documents = await read('documents', documentSchema);
  if (issues.length > 0 || 'issues' in beside)
    throw new RequestValidationError(inSchemaOrder(chatCompletionRequestSchema, issues, ['body']));
  return {
    ...beside.value,
    messages,
    tools: beside.value.tools && tools,
    documents: beside.value.documents && documents,
  };
}

/** Refuses fields of other services that this one lacks, and says what to do instead. */
function refuseForeignFields(body: JsonObject): void {
  for (const [name, remedy] of Object.entries(refusedChatFields)) {
    const value = body[name];
    if (value !== null && value !== undefined)
      throw unsupportedField([name], value, `${name} is not supported by this service. ${remedy}`);
  }
}

/** A list that is too long is refused as a whole, without looking at its elements. */
function listIn(body: object, name: ListField): unknown[] {
  const given: unknown = Reflect.get(body, name);
  return Array.isArray(given) && given.length <= chatLimits[name] ? given : [];
}

async function readItems<Item extends z.ZodType>(
  items: unknown[],
  { name, item, slices }: { name: string; item: Item; slices: TimeSlices },
): Promise<{ values: z.output<Item>[]; issues: ValidationIssue[] }> {
  const values: z.output<Item>[] = [];
  const issues: ValidationIssue[] = [];
  for (const [index, given] of items.entries()) {
    if (slices.over) await slices.pause();
    const result = readItem(item, given, ['body', name, index]);
    if ('value' in result) values.push(result.value);
    else issues.push(...result.issues);
    if (issues.length >= largestIssueCount) break;
  }
  return { values, issues };
}
