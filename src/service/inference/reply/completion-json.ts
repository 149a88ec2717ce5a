import type { ChatCompletion } from '../../../contract/index.ts';
import { inTimeSlices } from '../../../util/time-slices.ts';

/** JSON of a completion, choice by choice: with many alternatives to each token it is megabytes. */
export async function completionJson(completion: ChatCompletion): Promise<string> {
  const members: string[] = [];
  for (const [name, value] of Object.entries(completion)) {
    if (value === undefined) continue;
    const json = name === 'choices' ? await listJson(completion.choices) : JSON.stringify(value);
    members.push(`${JSON.stringify(name)}:${json}`);
  }
  return `{${members.join(',')}}`;
}

async function listJson(items: readonly unknown[]): Promise<string> {
  const parts: string[] = [];
  for await (const [, item] of inTimeSlices(items)) parts.push(JSON.stringify(item));
  return `[${parts.join(',')}]`;
}
