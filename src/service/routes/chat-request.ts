import { z } from 'zod';
import {
  chatCompletionRequestSchema,
  chatFieldAliases,
  chatLimits,
  compiledChatRequestSchema,
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
import { invalidField, maxIssues, RequestValidationError, unsupportedField } from '../errors.ts';
import { sortIssues } from '../jobs/read-trajectory.ts';
import { MemorySource } from '../json/byte-source.ts';
import { memberSource, readJson, wholeBytes } from '../json/parse.ts';
import { fieldsOf, readItem, refuseUnknownFields, renameAliases, validateBody } from '../validation.ts';

type ListField = 'messages' | 'tools' | 'documents';

/** The request without the elements of its long lists, which are validated one by one. */
const frameSchema = chatCompletionRequestSchema.extend({
  messages: list(z.unknown(), chatLimits.messages).min(1),
  tools: optional(list(z.unknown(), chatLimits.tools)),
  documents: optional(list(z.unknown(), chatLimits.documents)),
});

interface ChatRequest {
  request: ParsedChatCompletionRequest;
  /** The request's seed with all its digits. */
  seed: number | bigint | undefined;
}

/** Parses and validates a chat request, and checks that its fields fit together. */
export async function readChatRequest(
  content: Buffer,
  { priorityScheduling }: { priorityScheduling: boolean },
): Promise<ChatRequest> {
  const request = await parseRequest(content);
  checkCombinations(request, priorityScheduling);
  return { request, seed: await exactSeed(content, request.seed) };
}

/** A long request is processed in time slices, with the same result and errors. */
async function parseRequest(content: Buffer): Promise<ParsedChatCompletionRequest> {
  const slices = content.length > wholeBytes ? new TimeSlices() : undefined;
  const sent = await readJson(content, slices);
  const body = isObject(sent) ? renameAliases(sent, chatFieldAliases) : sent;
  if (slices?.over) await slices.pause();
  if (isObject(body)) refuseForeignFields(body);
  if (!slices || !isObject(body)) return validateBody(compiledChatRequestSchema(), body);
  refuseUnknownFields(body, fieldsOf(chatCompletionRequestSchema));
  const frame = readItem(frameSchema, body, ['body']);
  const issues = 'issues' in frame ? [...frame.issues] : [];
  const read = async <Item extends z.ZodType>(name: ListField, item: Item): Promise<z.output<Item>[]> => {
    const items = await readItems(listIn(body, name), { name, item, slices });
    issues.push(...items.issues);
    return items.values;
  };
  const messages = await read('messages', messageSchema);
  const tools = await read('tools', toolSchema);
  const documents = await read('documents', documentSchema);
  if (issues.length > 0 || 'issues' in frame)
    throw new RequestValidationError(sortIssues(chatCompletionRequestSchema, issues, ['body']));
  return {
    ...frame.value,
    messages,
    tools: frame.value.tools && tools,
    documents: frame.value.documents && documents,
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
  const value: unknown = Reflect.get(body, name);
  return Array.isArray(value) && value.length <= chatLimits[name] ? value : [];
}

async function readItems<Item extends z.ZodType>(
  items: unknown[],
  { name, item, slices }: { name: string; item: Item; slices: TimeSlices },
): Promise<{ values: z.output<Item>[]; issues: ValidationIssue[] }> {
  const values: z.output<Item>[] = [];
  const issues: ValidationIssue[] = [];
  for (const [index, element] of items.entries()) {
    if (slices.over) await slices.pause();
    const result = readItem(item, element, ['body', name, index]);
    if ('value' in result) values.push(result.value);
    else issues.push(...result.issues);
    if (issues.length >= maxIssues) break;
  }
  return { values, issues };
}

/** Refuses fields that contradict the rest of the request or that this service does not support. */
function checkCombinations(request: ParsedChatCompletionRequest, priorityScheduling: boolean): void {
  if ((request.top_logprobs ?? 0) > 0 && request.logprobs !== true)
    throw invalidField(['top_logprobs'], 'needs logprobs: true', request.top_logprobs);
  // Options that are all false count as absent: clients send an empty object whatever `stream` is.
  if (Object.values(request.stream_options ?? {}).includes(true) && request.stream !== true)
    throw invalidField(['stream_options'], 'needs stream: true', request.stream_options);
  if ((request.length_penalty ?? 1) !== 1 && !request.use_beam_search)
    throw invalidField(['length_penalty'], 'needs use_beam_search: true', request.length_penalty);
  if ((request.priority ?? 0) !== 0 && !priorityScheduling)
    throw invalidField(
      ['priority'],
      'must be 0, because this service does not schedule by priority; its operator can turn that on',
      request.priority,
    );
  if (request.function_call && request.tool_choice !== undefined && request.tool_choice !== 'none')
    throw invalidField(
      ['function_call'],
      `"${request.function_call}" is the older form of tool_choice, which has another value; send only tool_choice`,
      request.function_call,
    );
}

/**
 * The request's seed with all its digits. JavaScript numbers are exact only up to 2^53, so `parsed` may be
 * rounded, and the adjacent seeds of a group of samples would become equal.
 */
async function exactSeed(body: Buffer, parsed: number | undefined): Promise<number | bigint | undefined> {
  if (parsed === undefined || Number.isSafeInteger(parsed)) return parsed;
  if (!Number.isInteger(parsed)) throw invalidField(['seed'], 'Input should be a valid integer', parsed);
  const source = (await memberSource(new MemorySource(body), 'seed')) ?? '';
  return BigInt(/^-?\d{1,40}$/.test(source) ? source : parsed);
}
