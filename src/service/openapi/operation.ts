import type { z } from 'zod';

/** A request's body: JSON unless `type` says another media type. */
interface Body {
  schema: z.ZodType;
  example: unknown;
  type?: string;
  /** Default true. */
  required?: boolean;
}

/** A successful answer's body; `schema` null for one that is no JSON. */
interface Answer {
  schema: z.ZodType | null;
  example: unknown;
  /** A second form, chosen by the request: server-sent events of this schema. */
  stream?: { schema: z.ZodType; example: unknown; description: string };
}

/** An endpoint as the OpenAPI document tells of it. */
export interface Operation {
  method: 'get' | 'post' | 'delete';
  path: string;
  summary: string;
  /** What the interface leaves open, and how this service decided it. */
  description: string;
  tag: 'inference' | 'models' | 'training' | 'service';
  body?: Body;
  query?: z.ZodObject;
  /** Headers of the request, beside those that every request may carry. */
  headers?: ('Idempotency-Key' | 'Last-Event-ID')[];
  answer: Answer;
  /** Error statuses, beside those of every operation and of every body: see `failuresOf`. */
  errors: number[];
}

/** An operation whose repeats an Idempotency-Key makes harmless. */
export const keyed: Pick<Operation, 'headers'> = { headers: ['Idempotency-Key'] };
