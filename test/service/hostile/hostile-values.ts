import fc from 'fast-check';

/** JSON text of a hostile value. */
export type HostileJson = fc.Arbitrary<string>;

const wrapped = (open: string, inside: string, close: string, times: number) =>
  open.repeat(times) + inside + close.repeat(times);

const nested = fc
  .tuple(
    fc.constantFrom(
      ['[', '1', ']'],
      ['{"a":', '{}', '}'],
      ['{"items":', '{}', '}'],
      ['[{"anyOf":[', '{}', ']}]'],
    ),
    fc.constantFrom(2, 90, 350, 999, 1001, 200_000),
  )
  .map(([[open = '', inside = '', close = ''], times]) => wrapped(open, inside, close, times));

const piece = fc.constantFrom(
  ...['a', ' ', '\n', 'hello world ', '<|user|>', '<|end|>', '\u0000', '\ud800', '\ufdd0', '\u{1f600}', '漢'],
  ...[
    '{{ messages }}',
    "{{ ''.constructor.constructor('return process')() }}",
    '{% for a in range(9999999) %}',
  ],
  ...['(a+)+', '(a|a)*', '[^a]{9999}', '\\d{0,9999}', 'root ::= root root | "a"', '__proto__', '../', "';--"],
);

const text = fc
  .tuple(fc.array(piece, { minLength: 1, maxLength: 4 }), fc.constantFrom(1, 3, 100, 5000, 300_000))
  .map(([pieces, times]) => JSON.stringify(pieces.join('').repeat(times).slice(0, 3_000_000)));

const number = fc.constantFrom(
  ...['1e999', '-1e999', '1e308', '-1e308', '1e-400', '-0', '0.1', '-1', '2147483648', '9007199254740993'],
  ...['9223372036854775807', '9'.repeat(400), '9'.repeat(1_000_000), `0.${'0'.repeat(100_000)}1`],
);

const names = fc.constantFrom(
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  'a',
  '',
  '0',
  'type',
  '$ref',
);
const small = fc.oneof(
  number,
  text,
  names.map((name) => JSON.stringify(name)),
  fc.constantFrom('null', 'true', '{}', '[]'),
);

const object = fc
  .array(fc.tuple(names, small), { maxLength: 4 })
  .map((members) => `{${members.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`);

const many = fc
  .tuple(
    fc.constantFrom('0', '"a"', '[]', '{}', 'null', '{"role":"user","content":"a"}'),
    fc.constantFrom(100, 20_000, 600_000),
  )
  .map(
    ([item, times]) =>
      `[${Array(Math.min(times, Math.ceil(4_000_000 / item.length)))
        .fill(item)
        .join(',')}]`,
  );

const manyNames = fc
  .constantFrom(100, 20_000, 300_000)
  .map((count) => `{${Array.from({ length: count }, (_, index) => `"k${index}":1`).join(',')}}`);

export const hostileJson: HostileJson = fc.oneof(
  { arbitrary: small, weight: 5 },
  { arbitrary: object, weight: 3 },
  nested,
  many,
  manyNames,
);

const optional = (count: number) =>
  `{"properties":{${Array.from({ length: count }, (_, at) => `"k${at}":{}`).join(',')}}}`;

/** Fields for grammars and templates, of the most expensive kinds. */
export const hostileWork: HostileJson = fc.oneof(
  fc
    .tuple(
      fc.array(fc.constantFrom('a', 'a?', '.*', '\\w', '[^a]', '(?:a|b|ab)', 'a{3}', '.{200}'), {
        minLength: 1,
        maxLength: 4,
      }),
      fc.array(fc.constantFrom('*', '+', '?', '{0,9}', '{100}', '{0,9999}'), { maxLength: 4 }),
    )
    .map(
      ([atoms, counts]) =>
        `"structured_outputs":{"regex":${JSON.stringify(counts.reduce((inner, count) => `(${inner})${count}`, atoms.join('')))}}`,
    ),
  fc
    .array(fc.constantFrom('"a"', 'r0', 'r1', 'r2', '(r1 r2)?', '[a-z]*', '""', '(r0 | "b")+'), {
      minLength: 6,
      maxLength: 18,
    })
    .map((parts) => {
      const rules = ['root', 'r0', 'r1', 'r2'].map(
        (name, index) => `${name} ::= ${parts.filter((_, at) => at % 4 === index).join(' | ') || '"x"'}`,
      );
      return `"structured_outputs":{"grammar":${JSON.stringify(rules.join('\n'))}}`;
    }),
  fc
    .constantFrom(
      optional(4000),
      `{"enum":[${Array.from({ length: 30_000 }, (_, at) => at).join(',')}]}`,
      `{"oneOf":[${Array.from({ length: 1900 }, (_, at) => `{"const":"k${at}"}`).join(',')}]}`,
      `{"anyOf":[${'{"$ref":"#"},'.repeat(500)}{"type":"null"}]}`,
      wrapped('{"type":"array","maxItems":9999,"items":', '{}', '}', 60),
      `{"anyOf":[${Array.from({ length: 3000 }, (_, at) => `{"type":"string","maxLength":${at}}`).join(',')}]}`,
      `{"anyOf":[${'{"format":"date-time"},'.repeat(3000)}{}]}`,
    )
    .map(
      (schema) => `"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":${schema}}}`,
    ),
  fc
    .constantFrom(
      '{% for a in range(100000000) %}{% endfor %}',
      "{{ ''.constructor.constructor('return process')() }}",
      '{{ messages.__proto__.constructor }}',
      '{{ namespace.constructor("return this")() }}',
      '{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}',
      `${'{% if true %}'.repeat(3000)}a${'{% endif %}'.repeat(3000)}`,
      `{{ ${'['.repeat(20_000)} }}`,
      "{% set ns = namespace(s='ab') %}{% for i in range(40) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}",
    )
    .map((template) => `"chat_template":${JSON.stringify(template)}`),
  fc
    .tuple(
      fc.constantFrom(1, 16, 128, 129),
      fc.constantFrom(0, 20),
      fc.boolean(),
      fc.constantFrom('a', 'ab', ' '),
    )
    .map(
      ([n, top, beams, letter]) =>
        `"n":${n},"logprobs":true,"top_logprobs":${top},"use_beam_search":${beams},"max_tokens":3,"stop":[${Array.from({ length: 64 }, (_, at) => JSON.stringify(`${letter.repeat(400)}${at}`)).join(',')}]`,
    ),
);
