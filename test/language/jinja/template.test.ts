import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { Template } from '../../../src/language/jinja/template.ts';
import { parseExactJson } from '../../../src/util/exact-json.ts';

const fixture = (name: string) => readFileSync(new URL(`./fixtures/${name}`, import.meta.url), 'utf8');

/** Variables from JSON, with every digit of their numbers. */
function variables(json: string): Record<string, unknown> {
  const values = parseExactJson(json);
  return values instanceof Map ? Object.fromEntries(values) : {};
}

describe('a template renders as in Jinja2', () => {
  const { values, results }: { values: string; results: [string, string | null][] } = JSON.parse(
    fixture('expressions.json'),
  );

  it.each(results)('%s', (template, rendered) => {
    const render = () => new Template(template).render(variables(values));
    if (rendered === null) expect(render).toThrow();
    else expect(render()).toBe(rendered);
  });
});

it('a conversation in a published template is written as by Jinja2', () => {
  const prompts: [string, string, string | null][] = JSON.parse(fixture('prompts.json'));
  expect(prompts.length).toBeGreaterThan(100);
  for (const [name, values, rendered] of prompts) {
    const render = () => new Template(fixture(`templates/${name}`)).render(variables(values));
    if (rendered === null) expect(render).toThrow();
    else expect(render()).toBe(rendered);
  }
});
