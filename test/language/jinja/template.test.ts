import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { strftime } from '../../../src/language/jinja/strftime.ts';
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

describe('what Jinja2 has and this does not is an error that names it', () => {
  it.each([
    ["{{ {1: 'a'}[1] }}", 'the keys of a dict must be texts here, not int'],
    ['{{ dict([(1, 2)]) }}', 'the keys of a dict must be texts here, not int'],
    ['{{ [1, 2] | batch(1) }}', 'there is no filter "batch"'],
    ["{{ '{:>4}'.format(1) }}", 'format writes fields such as {}, {0} and {name} here, not {:>4}'],
    ["{{ '{0.x}'.format(1) }}", 'not {0.x}'],
    ["{{ '%5s' | format(1) }}", '% writes fields such as %s, %d and %(name)s here, not %5s'],
    ["{{ [1] | select('sameas', 1) }}", 'there is no test "sameas"'],
    ["{{ '12' | int(0, 3) }}", 'not of base 3'],
    ['{{ 1234 | round(-2) }}', 'no negative precision here, such as -2'],
    ["{{ strftime_now('%U') }}", 'strftime_now has no %U'],
    ['{% raw %}{{ x }}', 'a raw block has no {% endraw %}'],
  ])('%s', (template, named) => {
    expect(() => new Template(template).render()).toThrow(named);
  });
});

it('a date has the day of the year and, as in Python without a zone, no zone', () => {
  expect(strftime(new Date(2024, 11, 31, 23), '%j|%-j|%Z|%z|%%')).toBe('366|366|||%');
  expect(strftime(new Date(2025, 0, 7), '%j|%-j')).toBe('007|7');
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
