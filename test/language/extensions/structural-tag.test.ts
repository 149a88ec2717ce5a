import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { admits, compiler, randomChooser, SEED, textOf, tokenizer, walk } from '../grammar/support.ts';

const tagOf = (tag: Record<string, unknown>) => ({ type: 'structural_tag', tag }) as const;
const formatted = (format: Record<string, unknown>) => tagOf({ type: 'structural_tag', format });

const schema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] };
const json = { type: 'json_schema', json_schema: schema };
const digits = { type: 'regex', pattern: '[0-9]+' };
const text = (value: string) => ({ type: 'const_string', value });
const functions = (extra: Record<string, unknown> = {}) =>
  formatted({
    type: 'triggered_tags',
    triggers: ['<f='],
    tags: [
      { begin: '<f=add>', content: json, end: '</f>' },
      { type: 'tag', begin: '<f=one>', content: digits, end: '!' },
    ],
    ...extra,
  });

async function expectAdmitted(grammar: Parameters<typeof admits>[0], admitted: string[], refused: string[]) {
  for (const given of admitted) expect(await admits(grammar, given), given).toBe(true);
  for (const given of refused) expect(await admits(grammar, given), given).toBe(false);
}

describe('the older form of a structural tag', () => {
  const older = tagOf({
    type: 'structural_tag',
    structures: [
      { begin: '<function=add>', schema, end: '</function>' },
      { begin: '<function=none>', schema: { type: 'null' }, end: '</function>' },
      { begin: '[json]', schema: { type: 'boolean' }, end: '' },
    ],
    triggers: ['<function=', '[j'],
  });

  it('is free text with any number of structures', async () => {
    await expectAdmitted(
      older,
      [
        '',
        'Hello <world> [x] é😀\n',
        '<function=add>{"n":1}</function>',
        'a<function=none>null</function>b<<function=add>{"n":2}</function>',
        '<function [json]true[json]falsely',
        '<functio<function=add>{"n":-7}</function>',
        'the text may stop at <function',
      ],
      [
        '<function=',
        'x<function=sub>{"n":1}</function>',
        '<function=add>{"n":1}',
        '<function=add>{"m":1}</function>',
        '<function=add>null</function>',
        '[jar]',
      ],
    );
  });

  it('completes every structure that a sampled text begins', async () => {
    const compiled = await compiler.compile(
      textOf(tagOf({ structures: [{ begin: '<a>', schema, end: '</a>' }], triggers: ['<a'] })),
    );
    for (let seed = 0; seed < 40; seed++) {
      const sampled = tokenizer.decode(walk(compiled, randomChooser(seed), 3000));
      for (const piece of sampled.split('<a').slice(1)) expect(piece).toMatch(/^>\{"n":-?\d+\}<\/a>/);
    }
  });
});

describe('a format of a structural tag', () => {
  it.each<[type: string, format: Record<string, unknown>, admitted: string[], refused: string[]]>([
    ['const_string', text('Let us see.'), ['Let us see.'], ['Let us']],
    ['json_schema', json, ['{"n":1}'], ['{}', 'x']],
    ['grammar', { type: 'grammar', grammar: 'root ::= "(" root ")" | "x"' }, ['((x))'], ['((x)']],
    ['regex', digits, ['042'], ['', '4a']],
    ['any_text', { type: 'any_text' }, ['', 'a\n😀'], []],
    [
      'any_text with excludes',
      { type: 'any_text', excludes: ['ab', 'b!'] },
      ['', 'aab'.slice(0, 2), 'b', 'ba!'],
      ['ab', 'xaaby', 'b!'],
    ],
    ['sequence', { type: 'sequence', elements: [text('a'), digits, text('b')] }, ['a1b'], ['ab', '1']],
    ['or', { type: 'or', elements: [text('a'), digits] }, ['a', '12'], ['a1', '']],
    ['optional', { type: 'optional', content: text('a') }, ['', 'a'], ['aa']],
    ['plus', { type: 'plus', content: text('ab') }, ['ab', 'abab'], ['']],
    ['star', { type: 'star', content: text('ab') }, ['', 'abab'], ['aba']],
    ['repeat', { type: 'repeat', min: 1, max: 2, content: text('a') }, ['a', 'aa'], ['', 'aaa']],
    ['repeat without end', { type: 'repeat', min: 2, max: -1, content: text('a') }, ['aa', 'aaaa'], ['a']],
    [
      'tag',
      { type: 'tag', begin: '<t>', content: json, end: '</t>' },
      ['<t>{"n":1}</t>'],
      ['{"n":1}', '<t></t>'],
    ],
    [
      'tag with several ends',
      { type: 'tag', begin: '', content: digits, end: ['.', ';'] },
      ['1.', '22;'],
      ['1', '1.;'],
    ],
    [
      'tag around any text',
      { type: 'tag', begin: '<t>', content: { type: 'any_text', excludes: ['no'] }, end: '</t>' },
      ['<t></t>', '<t>a</ b</t>', '<t><t></t>'],
      ['<t>a</t></t>', '<t>no</t>', '<t>'],
    ],
    [
      'tag around a sequence that ends in any text',
      {
        type: 'tag',
        begin: '<',
        content: { type: 'sequence', elements: [digits, { type: 'any_text' }] },
        end: '>',
      },
      ['<1>', '<1a>'],
      ['<a>', '<1>>'],
    ],
    [
      'tags_with_separator',
      { type: 'tags_with_separator', tags: [{ begin: '<', content: digits, end: '>' }], separator: ', ' },
      ['', '<1>', '<1>, <2>, <3>'],
      ['<1>,<2>', '<1>, ', 'x'],
    ],
    [
      'tags_with_separator, at least one',
      {
        type: 'tags_with_separator',
        tags: [{ begin: '<', content: digits, end: '>' }],
        separator: '',
        at_least_one: true,
      },
      ['<1>', '<1><2>'],
      [''],
    ],
    [
      'tags_with_separator, one at the most',
      {
        type: 'tags_with_separator',
        tags: [{ begin: '<', content: digits, end: '>' }],
        separator: ',',
        stop_after_first: true,
      },
      ['', '<1>'],
      ['<1>,<2>'],
    ],
    [
      'dispatch',
      {
        type: 'dispatch',
        rules: [
          ['#', digits],
          ['@', text('me')],
        ],
        excludes: ['!'],
      },
      ['', 'a #1 b@me#23c'],
      ['#', 'a@you', 'stop!'],
    ],
    [
      'dispatch once',
      { type: 'dispatch', rules: [['#', digits]], loop: false },
      ['abc', 'a#1'],
      ['a#1b', '#1#2'],
    ],
    [
      'a triggered tag within a tag',
      {
        type: 'tag',
        begin: '[',
        content: {
          type: 'triggered_tags',
          triggers: ['<'],
          tags: [{ begin: '<', content: digits, end: '>' }],
        },
        end: ']',
      },
      ['[]', '[a<1>b<2>]'],
      ['[a]b]', '[<x>]', '[<1]'],
    ],
  ])('%s', async (_type, format, admitted, refused) => {
    await expectAdmitted(formatted(format), admitted, refused);
  });

  it('triggered_tags: any number of them, at most one, or at least one', async () => {
    const call = '<f=add>{"n":1}</f>';
    await expectAdmitted(functions(), ['', 'a', `a${call}b<f=one>7!c`], [`a<f=`, `<f=two>`]);
    await expectAdmitted(
      functions({ stop_after_first: true }),
      ['', 'a', `a${call}`],
      [`a${call}b`, `${call}${call}`],
    );
    await expectAdmitted(functions({ at_least_one: true }), [call, `${call}b${call}`], ['', `a${call}`]);
    await expectAdmitted(
      functions({ at_least_one: true, stop_after_first: true }),
      [call, '<f=one>1!'],
      ['', `${call}b`, `${call}${call}`],
    );
    await expectAdmitted(functions({ excludes: ['b'] }), [`a${call}`], [`b${call}`, `${call}ab`]);
  });

  it('triggered_tags: several triggers may have the same ending', async () => {
    const tags = ['<a', 'a'].map((begin) => ({ begin, content: text(begin === 'a' ? '1' : '2'), end: '' }));
    await expectAdmitted(
      formatted({ type: 'triggered_tags', triggers: ['<a', 'a'], tags }),
      ['<a1', '<a2', 'xa1'],
      ['xa2', 'a', '<a'],
    );
  });
});

describe('free text without certain strings', () => {
  it('is exactly the text that contains none of them', async () => {
    const unit = fc.constantFrom('a', 'b', '<', 'é');
    const excludes = fc.array(fc.string({ unit, minLength: 1, maxLength: 4 }), {
      minLength: 1,
      maxLength: 4,
    });
    await fc.assert(
      fc.asyncProperty(
        excludes,
        fc.array(fc.string({ unit, maxLength: 8 }), { minLength: 8 }),
        async (excluded, tried) => {
          const grammar = formatted({ type: 'any_text', excludes: excluded });
          for (const given of tried)
            expect(await admits(grammar, given), `${excluded}: ${given}`).toBe(
              !excluded.some((string) => given.includes(string)),
            );
        },
      ),
      { seed: SEED, numRuns: 60 },
    );
  });

  it('begins a tag as soon as a trigger is written, wherever it starts', async () => {
    const unit = fc.constantFrom('a', 'b');
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit, minLength: 1, maxLength: 4 }),
        fc.array(fc.string({ unit, maxLength: 10 }), { minLength: 8 }),
        async (trigger, tried) => {
          const grammar = formatted({ type: 'dispatch', rules: [[trigger, text('!')]] });
          for (const given of tried) {
            expect(await admits(grammar, given.replaceAll(trigger, `${trigger}!`))).toBe(true);
            expect(await admits(grammar, given)).toBe(!given.includes(trigger));
          }
        },
      ),
      { seed: SEED, numRuns: 60 },
    );
  });
});

describe('a structural tag', () => {
  const tag = { begin: '<a>', content: digits, end: '' };
  it.each<[message: string, tag: Record<string, unknown>]>([
    ['top: "type" ("other") must be "structural_tag"', { type: 'other', format: digits }],
    ['top: "structures" must be an array', { type: 'structural_tag' }],
    ['top: "triggers" ([]) is empty', { structures: [], triggers: [] }],
    ['top: "structures" ([]) is not supported here', { format: digits, structures: [] }],
    ['structures[0]: "schema" is missing', { structures: [{ begin: '<a>', end: '' }], triggers: ['<'] }],
    [
      'structures[0]: "stop" (1) is not supported here',
      { structures: [{ begin: '<a>', schema, end: '', stop: 1 }], triggers: ['<'] },
    ],
    ['format: "type" ("token") is not supported', { format: { type: 'token', token: 7 } }],
    [
      'format: "type" ("qwen_xml_parameter") is not supported',
      { format: { type: 'qwen_xml_parameter', json_schema: {} } },
    ],
    ['format: "max_tokens" (5) is not supported here', { format: { type: 'any_text', max_tokens: 5 } }],
    ['format: "style" ("qwen_xml") must be "json"', { format: { ...json, style: 'qwen_xml' } }],
    ['format: "any_order" (true) must be false', { format: { ...json, any_order: true } }],
    ['format: "excludes" ([""]) has an empty string', { format: { type: 'any_text', excludes: [''] } }],
    [
      'format.elements[1]: "value" (3) must be a string',
      { format: { type: 'or', elements: [text('a'), { type: 'const_string', value: 3 }] } },
    ],
    ['format.content: must be an object', { format: { type: 'star', content: 'x' } }],
    [
      'format: "min" (20000) is more than 10000',
      { format: { type: 'repeat', min: 20000, max: -1, content: digits } },
    ],
    [
      'format: "end" ({"type":"token","token":1}) must be a string',
      { format: { type: 'tag', ...tag, end: { type: 'token', token: 1 } } },
    ],
    [
      'has none that format.tags[0].begin ("<a>") begins with',
      { format: { type: 'triggered_tags', triggers: ['<b'], tags: [tag] } },
    ],
    ['begins with both', { format: { type: 'triggered_tags', triggers: ['<', '<a'], tags: [tag] } }],
    [
      'has "x", which no tag begins with',
      { format: { type: 'triggered_tags', triggers: ['<', 'x'], tags: [tag] } },
    ],
    [
      'has "a" inside another',
      {
        format: {
          type: 'triggered_tags',
          triggers: ['<ab', 'a'],
          tags: [
            { ...tag, begin: '<ab' },
            { ...tag, begin: 'a' },
          ],
        },
      },
    ],
  ])('is refused with %s', async (message, refused) => {
    await expect(compiler.compile(textOf(tagOf(refused)))).rejects.toMatchObject({
      code: 'structural_tag_unsupported',
      message: expect.stringContaining(message),
    });
  });

  it('names the path of the part that is refused', async () => {
    const multiple = { type: 'json_schema', json_schema: { type: 'integer', multipleOf: 2 } };
    await expect(compiler.compile(textOf(formatted({ type: 'plus', content: multiple })))).rejects.toThrow(
      'format.content #: "multipleOf" (2)',
    );
  });
});
