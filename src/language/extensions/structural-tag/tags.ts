import { Fields } from './fields.ts';

export interface Tag {
  begin: string;
  content: unknown;
  /** One of these closes it. */
  ends: string[];
  place: string;
}

export function readTag(value: unknown, place: string): Tag {
  const fields = new Fields(value, place, ['type', 'begin', 'content', 'end']);
  if (fields.has('type') && fields.value('type') !== 'tag') fields.refuse('type', 'must be "tag"');
  const ends = Array.isArray(fields.value('end')) ? fields.strings('end') : [fields.string('end')];
  if (ends.length === 0) fields.refuse('end', 'is empty');
  return { begin: fields.string('begin'), content: fields.value('content'), ends, place };
}

/** Each tag must begin with exactly one trigger, and each trigger must begin a tag. */
export function checkTriggers(fields: Fields, triggers: readonly string[], tags: readonly Tag[]): void {
  if (triggers.length === 0) fields.refuse('triggers', 'is empty');
  if (triggers.includes('')) fields.refuse('triggers', 'has an empty string');
  if (new Set(triggers).size < triggers.length) fields.refuse('triggers', 'has the same trigger twice');
  const used = new Set<string>();
  for (const { begin, place } of tags) {
    const begins = triggers.filter((trigger) => begin.startsWith(trigger));
    if (begins.length !== 1)
      fields.refuse(
        'triggers',
        begins.length === 0
          ? `has none that ${place}.begin (${JSON.stringify(begin)}) begins with`
          : `has ${JSON.stringify(begins[0])} and ${JSON.stringify(begins[1])}, and ${place}.begin begins with both`,
      );
    used.add(begins[0] ?? '');
  }
  const unused = triggers.find((trigger) => !used.has(trigger));
  if (unused !== undefined)
    fields.refuse('triggers', `has ${JSON.stringify(unused)}, which no tag begins with`);
  const hiding = triggers.find((trigger) =>
    triggers.some((other) => other !== trigger && other.slice(0, -1).includes(trigger)),
  );
  if (hiding !== undefined)
    fields.refuse(
      'triggers',
      `has ${JSON.stringify(hiding)} within another, which could then never be written`,
    );
}
