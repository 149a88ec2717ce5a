import { describe, expect, it } from 'vitest';
import { callForms } from '../../../src/language/call-forms.ts';
import { ReplyReader } from '../../../src/language/chat/reply-reader.ts';
import { argumentTypes } from '../../../src/language/grammar/json/argument-types.ts';

const parameters = {
  type: 'object',
  properties: {
    text: { type: 'string' },
    note: { anyOf: [{ type: 'string' }, { type: 'null' }] },
    count: { $ref: '#/$defs/count' },
    any: {},
  },
  additionalProperties: { enum: ['1', '2'] },
  $defs: { count: { type: ['integer', 'null'] } },
};

function read(call: string, { isCut = false } = {}) {
  const reader = new ReplyReader({
    calls: callForms['qwen3-coder'],
    typesOf: (_, argument) => argumentTypes(parameters, argument),
    reasoning: null,
  });
  const pieces = [...`<tool_call>\n${call}`].flatMap((character) => reader.push(character));
  let [content, json] = ['', ''];
  for (const piece of [...pieces, ...reader.end({ isCut })])
    if (piece.type === 'call') json += piece.arguments;
    else if (piece.type === 'arguments') json += piece.text;
    else content += piece.text;
  return { content, json };
}

const one = (name: string, value: string) =>
  read(`<function=f>\n<parameter=${name}>\n${value}\n</parameter>\n</function>\n</tool_call>`).json;

describe('parameters of a call', () => {
  it('are texts where the schema allows nothing else, whatever they look like', () => {
    for (const text of ['5', 'null', '{"a": 1}', ' x ', '', 'a\n\nb\n', '"q"'])
      expect(one('text', text)).toBe(JSON.stringify({ text }));
    expect(one('other', '1')).toBe('{"other":"1"}');
  });

  it('are values of the other types that the schema allows, if they read so', () => {
    expect(['None', 'null', '5', 'no', ' null'].map((text) => one('note', text))).toEqual([
      '{"note":null}',
      '{"note":null}',
      '{"note":"5"}',
      '{"note":"no"}',
      '{"note":" null"}',
    ]);
    expect(['12345678901234567890', ' 5 ', 'None', 'five'].map((text) => one('count', text))).toEqual([
      '{"count":12345678901234567890}',
      '{"count":5}',
      '{"count":null}',
      '{"count":"five"}',
    ]);
    expect(['True', '[1, {"a": null}]', 'x', '"x"'].map((text) => one('any', text))).toEqual([
      '{"any":true}',
      '{"any":[1,{"a":null}]}',
      '{"any":"x"}',
      '{"any":"\\"x\\""}',
    ]);
  });

  it('may have their own tags in a text, stand on one line, and be none', () => {
    expect(one('text', 'a\n</parameter>\nb </function>')).toBe('{"text":"a\\n</parameter>\\nb </function>"}');
    expect(
      read('<function=f><parameter=text>a</parameter><parameter=count>3</parameter></function></tool_call>')
        .json,
    ).toBe('{"text":"a","count":3}');
    expect(read('<function=f>\n</function>\n</tool_call>').json).toBe('{}');
    expect(read('<function=f>\n<parameter=text>\na\n</parameter>\n</tool_call>').json).toBe('{"text":"a"}');
  });

  it('reach the agent if they are malformed, and are left out if they are cut', () => {
    expect(read('<function=f>\ntext: a\n</function>\n</tool_call>').json).toBe('{text: a}');
    expect(read('<function=f>\n<parameter=text>\na', { isCut: true })).toEqual({ content: '', json: '{' });
    expect(read('<function=f', { isCut: true })).toEqual({ content: '', json: '' });
    expect(read('<function>\n</tool_call> more').content).toBe('<tool_call>\n<function>\n</tool_call> more');
  });
});
