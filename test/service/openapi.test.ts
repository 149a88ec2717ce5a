import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Admission } from '../../src/service/admission/admission.ts';
import { resolveLimits } from '../../src/service/admission/service-limits.ts';
import { defaultBodyLimits } from '../../src/service/bodies/bodies.ts';
import { Connections } from '../../src/service/http/exchange.ts';
import { createApp, KeyStore } from '../../src/service/index.ts';
import { openService } from '../../src/service/open-service.ts';
import { openApiDocument } from '../../src/service/openapi/document.ts';
import { resolveSources } from '../../src/service/training-data/sources.ts';
import { temporaryFolder } from '../support/files.ts';
import { ScriptedEngine } from '../support/scripted-engine.ts';
import { type Json, start } from './harness.ts';

const document: Json = JSON.parse(JSON.stringify(openApiDocument()));
const operations: { name: string; path: string; method: string; operation: Json }[] = Object.entries(
  document.paths,
).flatMap(([path, methods]: [string, Json]) =>
  Object.entries(methods).map(([method, operation]) => ({
    name: `${method} ${path}`,
    path,
    method,
    operation,
  })),
);

/** Validates with the document's own schemas, anywhere in it. */
const ajv = new Ajv2020({ strict: false, allErrors: true });
addFormats.default(ajv);
ajv.addSchema(document, 'document');

/** The errors of a value for the schema at a path of the document, or null. */
function faults(value: unknown, ...location: string[]): unknown {
  const pointer = location.map(
    (name) => `/${encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'))}`,
  );
  const validate = ajv.compile({ $ref: `document#${pointer.join('')}` });
  validate(value);
  return validate.errors ?? null;
}

/** The media types of each request and response body of an operation, with their paths. */
const contents = operations.flatMap(({ name, path, method, operation }) => {
  const inRequest = Object.keys(operation.requestBody?.content ?? {}).map((type) => [
    'requestBody',
    'content',
    type,
  ]);
  const inAnswers = Object.entries(operation.responses).flatMap(([status, response]: [string, Json]) =>
    Object.keys(response.content ?? {}).map((type) => ['responses', status, 'content', type]),
  );
  return [...inRequest, ...inAnswers].map((location) => ({
    name,
    location: ['paths', path, method, ...location],
  }));
});

const at = (location: string[]): Json => location.reduce((value: Json, name) => value[name], document);

/** Fields of the interface by their type. Those that also take another type here are left out. */
const interfaceTypes: Record<string, Record<string, string>> = {
  ChatCompletionRequest: {
    string: 'model reasoning_effort user chat_template request_id cache_salt',
    number: 'frequency_penalty presence_penalty temperature top_p min_p repetition_penalty length_penalty',
    integer:
      'top_logprobs max_tokens max_completion_tokens n seed top_k min_tokens truncate_prompt_tokens prompt_logprobs priority',
    boolean:
      'logprobs stream include_reasoning parallel_tool_calls use_beam_search include_stop_str_in_output ignore_eos skip_special_tokens spaces_between_special_tokens echo add_generation_prompt continue_final_message add_special_tokens return_tokens_as_token_ids return_token_ids',
    array: 'messages tools stop_token_ids allowed_token_ids bad_words documents logits_processors',
    object:
      'logit_bias response_format stream_options chat_template_kwargs mm_processor_kwargs structured_outputs kv_transfer_params engine_xargs',
  },
  ChatCompletion: {
    string: 'model id object service_tier system_fingerprint',
    integer: 'created',
    array: 'choices prompt_logprobs prompt_token_ids',
    object: 'usage kv_transfer_params',
  },
  Choice: {
    string: 'finish_reason',
    integer: 'index',
    array: 'token_ids',
    object: 'message logprobs',
  },
  ResponseMessage: {
    string: 'role content refusal reasoning reasoning_content',
    array: 'tool_calls',
    object: 'function_call',
  },
  Usage: { integer: 'prompt_tokens total_tokens completion_tokens', object: 'prompt_tokens_details' },
  Trajectory: {
    number: 'reward',
    integer: 'initial_policy_version final_policy_version',
    string: 'start_time',
    array: 'messages_and_choices tools additional_histories logs',
    object: 'metrics metadata',
  },
  ExperimentalTrainingConfig: {
    number:
      'advantage_balance epsilon epsilon_high vendor_k2_tau learning_rate max_negative_advantage_importance_sampling_weight',
    boolean: 'mask_prob_ratio ppo precalculate_logprobs scale_rewards',
  },
  InferenceModel: { string: 'id object owned_by root', integer: 'created' },
  ValidationIssue: { string: 'msg type', array: 'loc', object: 'ctx' },
};

describe('the OpenAPI document', () => {
  test('is served, and is valid', async () => {
    const { call } = await start();
    expect((await call('GET', '/v1/openapi.json')).body).toEqual(document);
    const validator = new Validator();
    expect(await validator.validate(structuredClone(document))).toEqual({ valid: true });
    expect(validator.version).toBe('3.1');
  });

  test('has exactly the routes of the service', async () => {
    const service = await openService({
      ...{ engine: new ScriptedEngine(), dataFolder: await temporaryFolder(), apiKey: 'key', log: () => {} },
      ...{ bodyLimits: defaultBodyLimits, defaultEntity: 'local', priorityScheduling: false },
      ...{ keys: await KeyStore.open(await temporaryFolder()), trainingData: await resolveSources() },
      ...{ admission: new Admission(resolveLimits({}, 1)), connections: new Connections(1) },
      closing: new AbortController().signal,
    });
    onTestFinished(async () => {
      service.keys.close();
      await service.store.close();
    });
    const routes = createApp(service).routes.filter(({ method }) => method !== 'ALL');
    const inCode = routes.map(
      ({ method, path }) => `${method.toLowerCase()} ${path.replace(/:(\w+)(?:\{[^}]*\})?/g, '{$1}')}`,
    );
    expect(inCode.toSorted()).toEqual(operations.map(({ name }) => name).toSorted());
  });

  test('has an example of every body, which matches its schema', { tags: ['long'] }, () => {
    for (const { name, location } of contents) {
      const { schema, example } = at(location);
      if (location.at(-1) === 'application/octet-stream') continue;
      expect(schema, `${name} ${location.join(' ')}`).toBeDefined();
      expect(example, `${name} ${location.join(' ')}`).toBeDefined();
      expect(faults(example, ...location, 'schema'), `${name} ${location.slice(3).join(' ')}`).toBeNull();
    }
    expect(contents.length).toBeGreaterThan(100);
  });

  test('has an example, which matches its schema, and a description for every parameter and header', () => {
    const shared = Object.keys(document.components.parameters).map((name) => [
      'components',
      'parameters',
      name,
    ]);
    const own = operations.flatMap(({ path, method, operation }) =>
      operation.parameters.flatMap((parameter: Json, index: number) =>
        '$ref' in parameter ? [] : [['paths', path, method, 'parameters', String(index)]],
      ),
    );
    for (const location of [...shared, ...own]) {
      const { description, example } = at(location);
      expect(description, location.join(' ')).toMatch(/\w/);
      expect(faults(example, ...location, 'schema'), location.join(' ')).toBeNull();
    }
    for (const { name, path, operation } of operations) {
      const named = operation.parameters.map((parameter: Json) =>
        '$ref' in parameter ? at(parameter.$ref.slice(2).split('/')) : parameter,
      );
      const inPath = named
        .filter((parameter: Json) => parameter.in === 'path')
        .map((parameter: Json) => parameter.name);
      expect(inPath, name).toEqual([...path.matchAll(/\{(\w+)\}/g)].map(([, parameter]) => parameter));
    }
  });

  test('detects an invalid example', () => {
    const location = [
      'paths',
      '/v1/preview/models',
      'post',
      'requestBody',
      'content',
      'application/json',
      'schema',
    ];
    expect(faults({ project: 'desk' }, ...location)).not.toBeNull();
    expect(faults({ project: 'a b', base_model: 'x' }, ...location)).not.toBeNull();
  });

  test('names every object and enumeration, so that generators invent no names', () => {
    const nameless: string[] = [];
    const look = (value: Json, location: string, isNamed: boolean): void => {
      if (typeof value !== 'object' || value === null) return;
      const isType = value.enum?.length > 1 || (value.type === 'object' && !('$ref' in value));
      if (!isNamed && isType && (value.properties || value.enum || value.additionalProperties))
        nameless.push(location);
      for (const [name, part] of Object.entries<Json>(value.properties ?? {}))
        look(part, `${location}.${name}`, false);
      for (const name of ['items', 'additionalProperties']) look(value[name], `${location}.${name}`, false);
      for (const part of [...(value.anyOf ?? []), ...(value.oneOf ?? [])]) look(part, `${location}|`, false);
    };
    for (const [name, schema] of Object.entries(document.components.schemas)) look(schema, name, true);
    expect(nameless).toEqual([]);
    expect(Object.keys(document.components.schemas)).toEqual(
      expect.arrayContaining([
        'UserMessage',
        'ToolChoiceMode',
        'GradientStepEvent',
        'JsonSchemaResponseFormat',
      ]),
    );
  });

  test.each(Object.entries(interfaceTypes))('has the types of the interface in %s', (name, fieldsOf) => {
    const typesIn = (schema: Json): string[] => {
      if (schema.$ref) return typesIn(at(schema.$ref.slice(2).split('/')));
      const parts: Json[] = schema.anyOf ?? schema.oneOf ?? [];
      return parts.length > 0 ? parts.flatMap(typesIn) : [schema.type].flat();
    };
    const { properties } = document.components.schemas[name];
    for (const [type, fields] of Object.entries(fieldsOf))
      for (const field of fields.split(' ')) {
        const types = new Set(typesIn(properties[field] ?? {}));
        types.delete('null');
        expect([field, ...types]).toEqual([field, type]);
      }
  });

  test('states only size limits that a tool can fill', () => {
    const schemas = JSON.stringify(document.components.schemas);
    const sizes = [...schemas.matchAll(/"max(?:Length|Items|Properties)":(\d+)/g)];
    expect(sizes.length).toBeGreaterThan(50);
    for (const [found, size] of sizes) expect([found, Number(size) <= 1024]).toEqual([found, true]);
    expect(document.components.schemas.TextPart.properties.text).not.toHaveProperty('maxLength');
  });

  test('allows no additional properties in request bodies, as unknown fields are refused', () => {
    for (const { operation } of operations) {
      const { $ref } = operation.requestBody?.content['application/json']?.schema ?? {};
      if ($ref) expect([$ref, at($ref.slice(2).split('/')).additionalProperties]).toEqual([$ref, false]);
    }
  });

  test('describes every operation and its errors', () => {
    for (const { name, operation, method } of operations) {
      expect(operation.description, name).toMatch(/\w/);
      const statuses = Object.keys(operation.responses);
      expect(statuses, name).toEqual(expect.arrayContaining(['200', '401', '422', '429', '500', '503']));
      if (method === 'post')
        expect(statuses, name).toEqual(expect.arrayContaining(['400', '408', '413', '415']));
      if (operation.responses[503])
        expect(operation.responses[503].headers['Retry-After'], name).toBeDefined();
    }
    const chat = document.paths['/v1/chat/completions'].post;
    expect(chat.responses[400].description).toContain('context_length_exceeded');
    const names = operations.map(({ operation }) => operation.operationId);
    expect(new Set(names).size).toBe(names.length);
  });

  test('resolves every reference, and has the descriptions of the contract', () => {
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)];
    expect(references.length).toBeGreaterThan(100);
    for (const [, path = ''] of references) expect(at(path.split('/')), path).toBeDefined();
    const { CreateModelRequest, Model } = document.components.schemas;
    expect(CreateModelRequest.required).toEqual(['project', 'base_model']);
    expect(CreateModelRequest.properties.return_existing.description).toContain('409');
    expect(Model.properties.forked_from.description).toContain('checkpoint');
  });
});
