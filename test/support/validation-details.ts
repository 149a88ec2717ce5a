import { z } from 'zod';

const detailSchema = z.strictObject({
  loc: z.array(z.string()).min(1),
  msg: z.string().min(1),
  type: z.string().min(1),
  input: z.unknown(),
  ctx: z.record(z.string(), z.unknown()),
});

/** What is wrong with the `detail` of a 422 for this body; null if nothing is, or for other errors. */
export function problemInDetails(answer: unknown, sent: unknown): string | null {
  const { data } = z.looseObject({ detail: z.array(z.unknown()) }).safeParse(answer);
  if (!data) return null;
  if (data.detail.length === 0) return 'the list of problems is empty';
  for (const entry of data.detail) {
    const problem = problemInDetail(entry, sent);
    if (problem !== null) return `${problem}: ${JSON.stringify(entry)}`;
  }
  return null;
}

function problemInDetail(entry: unknown, sent: unknown): string | null {
  const parsed = detailSchema.safeParse(entry);
  if (!parsed.success) return z.prettifyError(parsed.error);
  if (!Object.hasOwn(Object(entry), 'input')) return 'there is no input';
  const [first, ...path] = parsed.data.loc;
  if (first !== 'body') return null;
  let value = typeof sent === 'string' ? parsedOrText(sent) : sent;
  for (const part of path) {
    if (typeof value !== 'object' || value === null) return null;
    if (Array.isArray(value) && !/^[0-9]+$/.test(part))
      return `${JSON.stringify(part)} is no place of an element`;
    value = Reflect.get(value, part);
  }
  return null;
}

function parsedOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
