import { expect, it } from 'vitest';
import { TemplateRunner } from '../../../src/language/extensions/request-template/template-runner.ts';

const runner = new TemplateRunner();
const messages = [{ role: 'user', content: 'a secret' }];

const roots = ["''", '[]', '{}', '1', 'true', 'none', 'messages', 'messages[0]', 'messages[0].content'];
const callable = [
  'range',
  'namespace',
  'namespace()',
  'raise_exception',
  'strftime_now',
  'loop',
  'self',
  'm',
];
const ways = [
  ...['.constructor', '.__proto__', ".constructor.constructor('return process')()", "['constructor']"],
  ...[
    "['__proto__']['toString']",
    '.__class__.__mro__',
    '.prototype',
    '.toString',
    '.valueOf()',
    '.value',
    '.type',
  ],
  ...[".call('x')", '.apply()', ".bind('x')()", '.__defineGetter__', '.__lookupGetter__'],
];
const globals = [
  'process',
  'globalThis',
  'require',
  'module',
  'render',
  'this',
  'global',
  'Function',
  'eval',
  'import',
];

it('a template can read only its variables', async () => {
  const expressions = [
    ...globals,
    ...[...roots, ...callable].flatMap((start) => ways.map((way) => start + way)),
    "messages | map(attribute='constructor') | list | tojson",
    "messages | map(attribute='constructor.constructor') | first",
    "messages | selectattr('__proto__') | list | length",
    "{'a': 1}.items() | first | first",
  ];
  const shown = await Promise.all(
    expressions.map((expression) =>
      runner.render({
        source: `{% macro m() %}{% endmacro %}{% for a in [1] %}{{ ${expression} }}{% endfor %}`,
        variables: { messages },
      }),
    ),
  );
  const leaks = shown.flatMap((result, index) =>
    result.type === 'text' &&
    /native code|function|class |\[object|process|node:|prototype/i.test(result.text)
      ? [`${expressions[index]}: ${result.text.slice(0, 200)}`]
      : [],
  );
  expect(leaks).toEqual([]);
  expect(shown.at(-1)).toEqual({ type: 'text', text: 'a' });
});

it('a template cannot change anything for a later one', async () => {
  await runner.render({
    source: "{% set namespace.a = 1 %}{% set messages[0].__proto__.a = 'seen' %}{% set range = 5 %}",
    variables: { messages },
  });
  await runner.render({
    source: "{% set n = namespace() %}{% set n.__proto__ = messages %}{% set n.constructor = 'seen' %}",
    variables: { messages },
  });
  const later = await runner.render({
    source: '{{ {}.a }}{{ messages[0].a }}{{ range(2) | length }}',
    variables: { messages },
  });
  expect(later).toEqual({ type: 'text', text: '2' });
});

it('concurrent templates are rendered in turn, even after one that ends its process', async () => {
  const deadly =
    "{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}";
  const sources = Array.from({ length: 24 }, (_, at) => (at % 12 === 5 ? deadly : `{{ ${at} }}`));
  const results = await Promise.all(sources.map((source) => runner.render({ source, variables: {} })));
  for (const [at, result] of results.entries())
    if (at % 12 === 5) expect(result.type).toBe('failed');
    else expect(result).toEqual({ type: 'text', text: String(at) });
});
