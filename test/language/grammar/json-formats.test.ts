import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { JsonSchema } from '../../../src/language/grammar/constraint.ts';
import { lengthsOf } from '../../../src/language/grammar/expression.ts';
import { PATTERN_OF_FORMAT, patternOfFormat } from '../../../src/language/grammar/json/formats.ts';
import { unenforcedOf } from '../../../src/language/grammar/json/keywords.ts';
import { anyMatch, plainSpelling } from '../../../src/language/grammar/regex.ts';
import { admits, compiler, randomChooser, textOf, tokenizer, walk } from './support.ts';

const admitsValue = (schema: JsonSchema, value: unknown) =>
  admits({ type: 'json_schema', schema }, JSON.stringify(value));

/**
 * Formats that ajv has no check for, in ASCII. `url`, which JSON Schema does not define, is one of public hosts to ajv,
 * and any URI here.
 */
const sameAs = new Map([
  ['url', 'uri'],
  ['idn-email', 'email'],
  ['idn-hostname', 'hostname'],
  ['iri', 'uri'],
  ['iri-reference', 'uri-reference'],
]);

describe('the format of a text', () => {
  it.each([...PATTERN_OF_FORMAT.keys()])('%s: all sampled texts have it', async (format) => {
    const ajv = new Ajv2020({ strict: false });
    addFormats.default(ajv);
    const validate = ajv.compile({ type: 'string', format: sameAs.get(format) ?? format });
    const compiled = await compiler.compile(
      textOf({ type: 'json_schema', schema: { type: 'string', format } }),
    );
    for (let seed = 0; seed < 40; seed++) {
      const json = tokenizer.decode(walk(compiled, randomChooser(seed), 300));
      if (!json.endsWith('"') || json.length < 2) continue;
      expect(validate(JSON.parse(json)), `${format} ${json}`).toBe(true);
    }
  });

  // 2083 is what Pydantic's HttpUrl has, 254 what RFC 5321 allows.
  it.each<[format: string, maxLength: number, admitted: string[]]>([
    [
      'uri',
      2083,
      ['https://example.com/a/b%20c/?q=x%C3%A9&r=/#top', `https://example.com/${'a'.repeat(200)}`],
    ],
    ['uri', 200, ['https://www.example.com/a-path/of-several/steps?q=1#top', 'http://localhost:8080/']],
    ['uri', 64, ['https://example.com/a?b=c']],
    ['uri', 40, ['https://www.example.com/a']],
    ['ipv6', 45, ['0000:0000:0000:0000:0000:ffff:192.168.100.228']],
    ['ipv6', 39, ['2001:0db8:0000:0000:0000:ff00:0042:8329']],
    ['email', 254, ['joe.bloggs+tag@mail.example.co.uk']],
    ['email', 100, ['christopher.robinson@mail.example.com']],
    ['email', 40, ['joe@example.com']],
    ['url', 64, ['http://10.255.0.1:8080/a']],
    ['hostname', 253, ['a.b.example.com']],
    ['hostname', 100, ['some-long-name.example.com']],
  ])('%s of at most %i characters is enforced', async (format, maxLength, admitted) => {
    const ajv = new Ajv2020({ strict: false });
    addFormats.default(ajv);
    const schema = { type: 'string', format, minLength: 1, maxLength };
    const validate = ajv.compile({ ...schema, format: sameAs.get(format) ?? format });
    for (const text of admitted) expect(await admitsValue(schema, text), text).toBe(true);
    const compiled = await compiler.compile(textOf({ type: 'json_schema', schema }));
    for (let seed = 0; seed < 20; seed++) {
      const json = tokenizer.decode(walk(compiled, randomChooser(seed), 3000));
      expect(validate(JSON.parse(json)), json).toBe(true);
    }
    expect(await admitsValue(schema, `${admitted[0]}${'a'.repeat(maxLength)}`)).toBe(false);
  });

  it.each(['uri', 'email', 'hostname'])('%s is never longer than it may be, whatever that is', (format) => {
    for (let most = 20; most < 3000; most += most < 300 ? 1 : 97) {
      const pattern = patternOfFormat(format, most) ?? '';
      const { most: longest } = lengthsOf(anyMatch(pattern, plainSpelling));
      if (pattern !== PATTERN_OF_FORMAT.get(format)) expect(longest).toBeLessThanOrEqual(most);
    }
  });

  it('and a length that it never exceeds do not add up', async () => {
    const email = { ...z.toJSONSchema(z.email().max(255)), $schema: undefined };
    expect(await admitsValue(email, 'joe@example.com')).toBe(true);
    const code = { type: 'string', pattern: '^(?:[A-Z][0-9]?){4}(?:-[a-z]{1,60}){3}$', maxLength: 400 };
    expect(await admitsValue(code, 'ABC1D-a-b-c')).toBe(true);
    expect(await admitsValue({ ...code, maxLength: 10 }, 'ABC1D-a-b-c')).toBe(false);
    expect(await admitsValue({ ...code, minLength: 12 }, 'ABC1D-a-b-c')).toBe(false);
  });

  // Most of these texts are valid, or invalid, in the tests of JSON Schema for the format.
  it.each<[format: string, admitted: string[], refused: string[]]>([
    [
      'uri',
      [
        'http://example.com/%6a',
        'https://a.example.org:8080/b(c)/d?e=f#g',
        'http://192.168.1.1',
        'http://192.168.1.1:8080/x',
        'file:///tmp/a.txt',
        'file://path/to/root1',
      ],
      [
        'http://example.com/%6G',
        'http://example.com/%A',
        'http://example.com/%',
        '%A',
        'http://a b.com',
        '//x.com/a',
        '/a',
        'http://a.com/[x]',
        'http://192.168.1.256',
        'file://a',
      ],
    ],
    ['url', ['http://localhost:8080/', 'https://example.com/a'], ['example.com', 'a b']],
    ['uri-reference', ['/a/b', 'a?b=c', '#d', 'http://example.com/'], ['\\\\a\\b', '#a b', 'a%2', 'a"b']],
    [
      'email',
      ['joe.bloggs@example.com', 'a+b@c-d.org'],
      ['2962', '.test@example.com', 'te..st@example.com', 'a@-b.com', 'a@b-.com', 'a@b'],
    ],
    [
      'hostname',
      ['www.example.com', 'a-b.c'],
      ['-a-host', 'host-.com', 'not_valid.com', 'a..b', '', `${'a'.repeat(64)}.com`],
    ],
    ['ipv4', ['192.168.0.1', '0.0.0.0'], ['256.1.1.1', '127.0.0', '01.2.3.4', '1.2.3.4/24']],
    [
      'ipv6',
      [
        '::1',
        'fe80::1',
        '1:2:3:4:5:6:7:8',
        '::',
        '::ffff:192.168.0.1',
        '1::d6:192.168.0.1',
        '1:2::192.168.0.1',
        '1:2:3:4:5:6:1.2.3.4',
        '1::2:3:4:5:1.2.3.4',
      ],
      [
        '12345::',
        '1::2::3',
        '1:2:3:4:5:6:7',
        ':1:2',
        '::1%eth0',
        '1::2:192.168.256.1',
        '::ffff:1.2.3',
        '1:2:3:4:5:6:7:1.2.3.4',
        '1::2:3:4:5:6:1.2.3.4',
        '1.2.3.4',
        '1.2.3.4::1',
      ],
    ],
    [
      'date',
      ['2024-02-29', '2000-02-29', '2023-04-30'],
      ['2023-02-29', '1900-02-29', '2023-04-31', '2023-13-01'],
    ],
    ['time', ['08:30:06Z', '08:30:06.5+01:00'], ['24:00:00Z', '08:30:60', '08:30Z', '08:30:06']],
    ['date-time', ['2024-02-29T08:30:06Z'], ['2023-02-29T08:30:06Z', '2024-01-01', '2024-01-01 08:30:06Z']],
    ['duration', ['P4DT12H30M5S', 'P2W', 'PT1M'], ['P', 'PT', 'P1D2H', 'P2D1Y', 'P1Y2W', '4DT12H']],
    [
      'uuid',
      [
        '2EB8AA08-AA98-11EA-B4AA-73B441D16380',
        '01234567-89ab-cdef-0123-456789abcdef',
        '00000000-0000-0000-0000-000000000000',
      ],
      ['2eb8aa08-aa98-11ea-b4aa-73b441d1638', '2eb8aa08aa9811eab4aa73b441d16380'],
    ],
    ['json-pointer', ['', '/a~1b/~0'], ['a', '/a~', '/~2']],
    ['relative-json-pointer', ['0', '1/a', '2#'], ['/a', '01', '-1', '0##']],
    [
      'regex',
      [
        '^[a-z]+\\d*(?:x|y)$',
        '^[a-zA-Z0-9_]{3,16}$',
        '(a{2}|b){2,}?',
        'a{0,0}b{9,10}',
        'a{13,19}b{29,30}c{64,256}',
      ],
      ['(', '[', '*a', '^(abc]', 'a{3', 'a{9,8}', 'a{13,12}', 'a{30,29}', 'a{10,9}', 'a{2}{3}', '(|*)'],
    ],
  ])('%s is that of its RFC', async (format, admitted, refused) => {
    for (const text of admitted) expect(await admitsValue({ type: 'string', format }, text), text).toBe(true);
    for (const text of refused) expect(await admitsValue({ type: 'string', format }, text), text).toBe(false);
  });
});

describe('the format of a number', () => {
  it.each<[schema: JsonSchema, admitted: number[], refused: number[]]>([
    [{ type: 'integer', format: 'uint' }, [0, 5], [-1]],
    [{ type: 'integer', format: 'uint8' }, [0, 255], [-1, 256]],
    [{ type: 'integer', format: 'int32', minimum: 1 }, [1, 2_147_483_647], [0, 2_147_483_648]],
    [{ type: 'integer', format: 'int64' }, [-5, 2 ** 40], []],
    [{ type: 'number', format: 'double' }, [-0.5, 2], []],
    [{ type: 'integer', format: 'date' }, [3], []],
    [{ type: 'integer', format: 'color' }, [3], []],
  ])('is a range, or says nothing: %j', async (schema, admitted, refused) => {
    for (const value of admitted) expect(await admitsValue(schema, value), String(value)).toBe(true);
    for (const value of refused) expect(await admitsValue(schema, value), String(value)).toBe(false);
  });
});

describe('what JSON Schema does not define', () => {
  const schema = {
    type: 'object',
    markdownDescription: '*a*',
    properties: { markdownDescription: { type: 'string', format: 'color', nullable: true, 'x-y': 1 } },
    items: [{ tooltip: 'b', default: { c: 1 }, enum: [{ d: 1 }] }],
  };

  it('is an annotation', async () => {
    expect(await admitsValue(schema, { markdownDescription: 'any' })).toBe(true);
    expect(await admitsValue(schema, { markdownDescription: null })).toBe(false);
  });

  it('is listed once, without annotations of JSON Schema and names with x-', () => {
    expect(unenforcedOf(schema).sort()).toEqual([
      '"format": "color"',
      '"markdownDescription"',
      '"nullable"',
      '"tooltip"',
    ]);
  });
});

describe('numbers that a double cannot hold', () => {
  it.each<[keyword: string, schema: JsonSchema]>([
    ['const', { const: JSON.parse('9007199254740993') }],
    ['enum', { enum: ['a', { b: [1e300] }] }],
    ['const', { const: JSON.parse('1e400') }],
    ['minimum', { type: 'integer', minimum: 2 ** 60 }],
    ['maximum', { type: 'number', maximum: -(2 ** 60) }],
    ['maximum', { type: 'number', maximum: JSON.parse('1e400') }],
  ])('are refused by name: %s %j', async (keyword, schema) => {
    await expect(compiler.compile(textOf({ type: 'json_schema', schema }))).rejects.toMatchObject({
      code: 'schema_unsupported',
      message: expect.stringContaining(`"${keyword}"`),
    });
  });

  it('are harmless as bounds of other numbers', async () => {
    const schema = { type: 'integer', minimum: -(2 ** 63), maximum: 2 ** 63 };
    expect(await admitsValue(schema, Number.MAX_SAFE_INTEGER)).toBe(true);
    expect(await admitsValue({ const: 1.0 }, 1)).toBe(true);
  });

  it('do not round to an exclusive bound', async () => {
    const grammar = { type: 'json_schema' as const, schema: { type: 'number', exclusiveMaximum: 3 } };
    expect(await admits(grammar, '2.99999999999999')).toBe(true);
    expect(await admits(grammar, '2.99999999999999999999')).toBe(false);
  });
});
