import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import {
  baseModelListSchema,
  chatCompletionSchema,
  checkpointPageSchema,
  createJobResponseSchema,
  deleteCheckpointsResponseSchema,
  deleteModelResponseSchema,
  errorSchema,
  inferenceModelListSchema,
  modelSchema,
  trainingEventPageSchema,
  trainingJobSchema,
  uploadSchema,
  validationErrorSchema,
} from '../../src/contract/index.ts';
import { apiKey, service } from './support.ts';

const schemas = {
  any: z.looseObject({}),
  baseModels: baseModelListSchema,
  chatCompletion: chatCompletionSchema,
  chatValidationError: validationErrorSchema.extend({ error: z.object({ message: z.string() }) }),
  checkpointPage: checkpointPageSchema,
  deletedCheckpoints: deleteCheckpointsResponseSchema,
  deletedModel: deleteModelResponseSchema,
  error: errorSchema,
  eventPage: trainingEventPageSchema,
  inferenceModelList: inferenceModelListSchema,
  job: createJobResponseSchema,
  model: modelSchema,
  trainingJob: trainingJobSchema,
  upload: uploadSchema,
  validationError: validationErrorSchema,
};

/** What a deployed client sends, and what it must get. */
const exchangeSchema = z.strictObject({
  name: z.string(),
  method: z.enum(['GET', 'POST', 'DELETE']),
  path: z.string(),
  headers: z.record(z.string(), z.string()).default({}),
  body: z.unknown().optional(),
  /** A body that is not JSON. */
  text: z.string().optional(),
  status: z.number(),
  schema: z.enum(Object.keys(schemas) as [keyof typeof schemas]),
  /** What the answer contains at least. "*" in a list stands for anything. */
  answer: z.unknown(),
  /** Names for values of the answer, by path; later exchanges refer to them as `{name}`. */
  keep: z.record(z.string(), z.array(z.string())).default({}),
  /** Awaits the job of the answer: its last event. */
  ends: z.enum(['training_ended', 'training_failed']).optional(),
});

function exchangesOf(file: string) {
  const text = readFileSync(new URL(`./bodies/${file}.json`, import.meta.url), 'utf8');
  return z.array(exchangeSchema).parse(JSON.parse(text));
}

function fill(value: unknown, kept: ReadonlyMap<string, string>): unknown {
  const text = JSON.stringify(value) ?? 'null';
  return JSON.parse(
    text.replace(/\{(\w+)\}/g, (whole, name: string) => kept.get(name) ?? whole),
    (_, found: unknown) => (found === '*' ? expect.anything() : found),
  );
}

function at(value: unknown, path: readonly string[]): string {
  const found = path.reduce<unknown>(
    (inner, name) => (typeof inner === 'object' && inner !== null ? Reflect.get(inner, name) : undefined),
    value,
  );
  return z.string().parse(found);
}

describe('a deployed client', () => {
  const running = service();

  const send = (path: string, init: RequestInit = {}) =>
    fetch(running.url + path, {
      ...init,
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json', ...init.headers },
    });

  async function lastEvent(jobId: string): Promise<string | undefined> {
    const headers = { accept: 'text/event-stream' };
    const text = await (await send(`/v1/preview/training-jobs/${jobId}/events`, { headers })).text();
    const last = text.split('\n').findLast((line) => line.startsWith('data: '));
    return z.object({ type: z.string() }).parse(JSON.parse(last?.slice('data: '.length) ?? 'null')).type;
  }

  describe.each(['chat', 'models', 'training'])('of %s', (file) => {
    const kept = new Map<string, string>();

    it.each(exchangesOf(file))('$name', async (exchange) => {
      const { method, path, headers, body, text, status, schema, answer, keep, ends } = exchange;
      const response = await send(z.string().parse(fill(path, kept)), {
        method,
        headers,
        ...(body !== undefined && { body: JSON.stringify(fill(body, kept)) }),
        ...(text !== undefined && { body: text }),
      });
      const got = await response.json();
      expect({ status: response.status, got }).toEqual({ status, got });
      schemas[schema].parse(got);
      expect(got).toMatchObject(Object(fill(answer, kept)));
      for (const [name, place] of Object.entries(keep)) kept.set(name, at(got, place));
      if (ends) expect(await lastEvent(at(got, ['id']))).toBe(ends);
    });
  });
});
