import { describe, expect, it } from 'vitest';
import { callForms } from '../../../src/language/call-forms.ts';
import { type ReplyPiece, ReplyReader } from '../../../src/language/chat/reply-reader.ts';

const { hermes: tagged, named, lfm2, json: bare } = callForms;
const [pythonOpen, pythonClose] = lfm2.tags;
const think = { open: '<think>', close: '</think>', opened: false };

/** A reply in words: reasoning, content, and calls as [name, arguments]. */
function summary(pieces: readonly ReplyPiece[]) {
  const result = { reasoning: '', content: '', calls: [] as [string, string][] };
  for (const piece of pieces)
    if (piece.type === 'call') result.calls.push([piece.name, piece.arguments]);
    else if (piece.type === 'arguments') result.calls.at(-1)![1] += piece.text;
    else result[piece.type] += piece.text;
  return result;
}

type Format = ConstructorParameters<typeof ReplyReader>[0];

/** Read in one piece, and character by character: both must be the same. */
function read(format: Format, text: string, { isCut = false } = {}) {
  const whole = new ReplyReader(format);
  const atOnce = summary([...whole.push(text), ...whole.end({ isCut })]);
  const reader = new ReplyReader(format);
  const pieces = [...text].flatMap((character) => reader.push(character));
  expect(summary([...pieces, ...reader.end({ isCut })])).toEqual(atOnce);
  return atOnce;
}

describe('calls between tags', () => {
  const format = { calls: tagged, reasoning: think };

  it('are read after reasoning and text', () => {
    const call =
      '<tool_call>\n{"name": "add", "arguments": {"a": "}</tool_call>", "b": [1, {}]}}\n</tool_call>';
    expect(read(format, `<think>\nHm\n</think>\n\nI add.\n${call}\n${call}`)).toEqual({
      reasoning: 'Hm',
      content: 'I add.',
      calls: [
        ['add', '{"a": "}</tool_call>", "b": [1, {}]}'],
        ['add', '{"a": "}</tool_call>", "b": [1, {}]}'],
      ],
    });
  });

  it('may have their fields in another order, or no arguments', () => {
    expect(
      read(
        format,
        '<tool_call>{"arguments": {"a": 1}, "name": "x"}</tool_call><tool_call>{"name":"y"}</tool_call>',
      ).calls,
    ).toEqual([
      ['x', '{"a":1}'],
      ['y', '{}'],
    ]);
  });

  it('reach the agent if they are malformed', () => {
    expect(read(format, '<tool_call>{"name": "x", "arguments": {a: 1}}</tool_call>').calls).toEqual([
      ['x', '{a: 1}'],
    ]);
    expect(read(format, '<tool_call>{"name": "x", "arguments": {"a": 1').calls).toEqual([['x', '{"a": 1']]);
    expect(read(format, 'So <tool_call>call x</tool_call> now').content).toBe(
      'So<tool_call>call x</tool_call> now',
    );
  });

  it('are only what the tags contain', () => {
    for (const text of [
      '{"name": "x", "arguments": {}}',
      'a <tool',
      'a  \n',
      '<thin',
      'a <think>b</think>',
      '',
    ])
      expect(read(format, text)).toEqual({ reasoning: '', content: text, calls: [] });
  });

  it('may follow reasoning that the prompt has opened', () => {
    const opened = { calls: tagged, reasoning: { ...think, opened: true } };
    expect(read(opened, 'Hm\n</think>\n\nYes')).toEqual({ reasoning: 'Hm', content: 'Yes', calls: [] });
  });
});

describe('calls with their name before their arguments', () => {
  const format = { calls: named, reasoning: think };
  const written = '<tool_call>add{"a":"}</tool_call>","b":[1,{}]}</tool_call>';
  const add = ['add', '{"a":"}</tool_call>","b":[1,{}]}'];

  it('are read after reasoning and text, one or several', () => {
    expect(read(format, `<think>\nHm\n</think>\n\nI add.${written}`)).toEqual({
      reasoning: 'Hm',
      content: 'I add.',
      calls: [add],
    });
    expect(read(format, `${written}${written}`)).toEqual({ reasoning: '', content: '', calls: [add, add] });
  });

  it('have no white space in their names and none before their arguments', () => {
    expect(read(format, '<tool_call>\nadd \n{"a": 1}\n</tool_call>').calls).toEqual([['add', '{"a": 1}']]);
  });

  it('arrive piece by piece: the name once it is whole, then the arguments as they are written', () => {
    const reader = new ReplyReader(format);
    expect(reader.push('<tool_call>ad')).toEqual([]);
    expect(reader.push('d')).toEqual([]);
    expect(reader.push('{"a":')).toEqual([
      { type: 'call', name: 'add', arguments: '' },
      { type: 'arguments', text: '{"a":' },
    ]);
    expect(reader.push('1}</tool')).toEqual([{ type: 'arguments', text: '1}' }]);
    expect(reader.push('_call><tool_call>b')).toEqual([]);
    expect(reader.push('{}</tool_call>')).toEqual([
      { type: 'call', name: 'b', arguments: '' },
      { type: 'arguments', text: '{}' },
    ]);
    expect(reader.end({ isCut: false })).toEqual([]);
  });

  it('may have the form of an object within the same tags', () => {
    for (const text of [
      '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>',
      '<tool_call>{"arguments": {"a": 1}, "name": "add"}</tool_call>',
    ]) {
      const { content, calls } = read(format, `${text}${written}`);
      expect(content).toBe('');
      expect(calls.map(([name]) => name)).toEqual(['add', 'add']);
      expect(JSON.parse(calls[0]![1])).toEqual({ a: 1 });
    }
  });

  it('are content without arguments or without a name', () => {
    for (const text of ['<tool_call>add</tool_call>', '<tool_call>{"a":1}</tool_call>', '<tool_call>'])
      expect(read(format, text)).toEqual({ reasoning: '', content: text, calls: [] });
    expect(read(format, 'So <tool_call>add</tool_call> {"a":1}')).toEqual({
      reasoning: '',
      content: 'So<tool_call>add</tool_call> {"a":1}',
      calls: [],
    });
  });

  it('reach the agent if their arguments are malformed', () => {
    expect(read(format, '<tool_call>add{a:1}</tool_call>').calls).toEqual([['add', '{a:1}']]);
    expect(read(format, '<tool_call>add{"a":1').calls).toEqual([['add', '{"a":1']]);
  });
});

describe('calls in Python', () => {
  const format = { calls: lfm2, reasoning: think };
  const list = (calls: string) => `${pythonOpen}[${calls}]${pythonClose}`;
  const called = (calls: string) => read(format, list(calls)).calls;
  const literalValue = (literal: string): unknown => {
    const [[, text] = ['', '']] = called(`f(x=${literal})`);
    return JSON.parse(text).x;
  };

  it('are read after reasoning and text, one or several, and before text', () => {
    const calls = list('weather(city="Paris", days=3), other.tool(x=[1, 2], ok=True), now()');
    expect(read(format, `<think>\nHm\n</think>\n\nI look.\n${calls}\nDone.`)).toEqual({
      reasoning: 'Hm',
      content: 'I look.Done.',
      calls: [
        ['weather', '{"city":"Paris","days":3}'],
        ['other.tool', '{"x":[1,2],"ok":true}'],
        ['now', '{}'],
      ],
    });
    expect(read(format, `${list('a(x=1)')}\n${list('b(y=2)')}`).calls).toEqual([
      ['a', '{"x":1}'],
      ['b', '{"y":2}'],
    ]);
  });

  it('have all literals that JSON has', () => {
    expect(called('f(a=None, b=False, c=-1.50, d=1e-7, e={"k": {\'n\': []}}, g=[[True], {}],)')).toEqual([
      ['f', '{"a":null,"b":false,"c":-1.50,"d":1e-7,"e":{"k":{"n":[]}},"g":[[true],{}]}'],
    ]);
    // As LFM2's templates write a dict.
    expect(literalValue('{"a": true, "b": null, "c": false}')).toEqual({ a: true, b: null, c: false });
    expect(called('f(x=2512292042121000001, y=1_000, z=.5, v=5., u=+3)')).toEqual([
      ['f', '{"x":2512292042121000001,"y":1000,"z":0.5,"v":5.0,"u":3}'],
    ]);
  });

  it('have texts in both quotes, with escapes', () => {
    expect(literalValue(String.raw`'Martha\'s "vine"'`)).toBe('Martha\'s "vine"');
    expect(literalValue(String.raw`"it's \"so\" [{(,)}]"`)).toBe('it\'s "so" [{(,)}]');
    expect(literalValue(String.raw`"\n\t\\\x41\u00e9\U0001F600\101\d\a"`)).toBe('\n\t\\A\u00e9😀A\\d\u0007');
    expect(literalValue(String.raw`"\ud83d\ude00"`)).toBe('😀');
    expect(literalValue('"a\\\nb"')).toBe('ab');
    expect(literalValue(`'${pythonClose})]'`)).toBe(`${pythonClose})]`);
  });

  it('may have what Python refuses and is clear: line breaks in texts, leading zeros, reserved names', () => {
    expect(literalValue('"a\n\tb\u0000"')).toBe('a\n\tb\u0000');
    expect(called('f(from=07, class="x", user-id=-00)')).toEqual([
      ['f', '{"from":7,"class":"x","user-id":-0}'],
    ]);
    expect(read(format, `${pythonOpen} [ f ( x = 1 ) , g( ) ] ${pythonClose}`).calls).toEqual([
      ['f', '{"x":1}'],
      ['g', '{}'],
    ]);
  });

  it('arrive argument by argument', () => {
    const reader = new ReplyReader(format);
    expect(reader.push(`${pythonOpen}[fi`)).toEqual([]);
    expect(reader.push('nd(')).toEqual([{ type: 'call', name: 'find', arguments: '{' }]);
    expect(reader.push("a='x, ")).toEqual([]);
    expect(reader.push("y'")).toEqual([]);
    expect(reader.push(', b')).toEqual([{ type: 'arguments', text: '"a":"x, y"' }]);
    expect(reader.push('=2), n')).toEqual([{ type: 'arguments', text: ',"b":2}' }]);
    expect(reader.push(`ow()]${pythonClose}`)).toEqual([
      { type: 'call', name: 'now', arguments: '{' },
      { type: 'arguments', text: '}' },
    ]);
  });

  it('reach the agent if an argument is malformed, and leave the others alone', () => {
    for (const [argument, text] of [
      ['"Paris"', '{"Paris"}'],
      ['a=b', '{a=b}'],
      ['x=1, city=get("x")', '{"x":1,city=get("x")}'],
      ["a=b'z'", "{a=b'z'}"],
      ['a=(1, 2)', '{a=(1, 2)}'],
      ['a={1: 2}', '{a={1: 2}}'],
      ['a=1 2', '{a=1 2}'],
      ['a="\\U99999999"', '{a="\\U99999999"}'],
      ['a="x" "y"', '{a="x" "y"}'],
    ] as const) {
      expect(called(`f(${argument}), now()`)).toEqual([
        ['f', text],
        ['now', '{}'],
      ]);
      expect(() => JSON.parse(text)).toThrow();
    }
    // A quote within a text: it may end anywhere.
    const odd = "f(a='it's', b=1)";
    expect(called(odd)).toEqual([['f', `{a='it's', b=1)]${pythonClose}`]]);
    expect(called('f(a=1]')).toEqual([['f', '{"a":1']]);
    expect(read(format, `${pythonOpen}[f(a=1, b="x`).calls).toEqual([['f', '{"a":1, b="x']]);
  });

  it('are content without a name', () => {
    for (const text of [
      list(''),
      list('5'),
      `${pythonOpen}f(x=1)${pythonClose}`,
      `${pythonOpen}[f(`.slice(0, -1),
    ])
      expect(read(format, text)).toEqual({ reasoning: '', content: text, calls: [] });
  });
});

describe('bare calls', () => {
  const format = { calls: bare, reasoning: null };

  it('are whole replies', () => {
    const text = '{"name": "add", "parameters": {"a": 1}}';
    expect(read(format, text).calls).toEqual([['add', '{"a": 1}']]);
    expect(read(format, `${text}; ${text}`).calls).toHaveLength(2);
    expect(read(format, `See ${text}`)).toEqual({ reasoning: '', content: `See ${text}`, calls: [] });
  });

  it('are not every JSON', () => {
    for (const text of ['{"a": 1}', '{"a": {"name": "x"}}', '{"unfinished', '{"name": "x", "age": 3}'])
      expect(read(format, text)).toEqual({ reasoning: '', content: text, calls: [] });
  });

  it('may follow white space', () => {
    expect(read(format, '\n\n{"name": "add", "parameters": {"a": 1}}').calls).toEqual([['add', '{"a": 1}']]);
  });

  it('hold back JSON only as long as it may become one', () => {
    const reader = new ReplyReader(format);
    expect(reader.push('{"a')).toEqual([]);
    expect(reader.push('nswer')).toEqual([{ type: 'content', text: '{"answer' }]);
    expect(reader.push('": [1')).toEqual([{ type: 'content', text: '": [1' }]);
  });

  it('are scanned once, however long they are', () => {
    const reader = new ReplyReader(format);
    reader.push('{"parameters": {"list": [');
    for (let item = 0; item < 20_000; item++) expect(reader.push('12345,')).toEqual([]);
    const [call] = reader.push('0]}, "name": "add"}');
    expect(call).toMatchObject({ type: 'call', name: 'add' });
  });
});

describe('a reply that a limit cuts', () => {
  const call = '{"name": "list_files", "arguments": {"path": "/tmp"}}';
  const hermes = `<tool_call>\n${call}\n</tool_call>`;
  const llama = call.replace('arguments', 'parameters');

  it.each<[string, Format, string]>([
    [
      'calls between tags',
      { calls: tagged, reasoning: think },
      `<think>\nHm\n</think>\n\nI look.\n${hermes}\n${hermes}`,
    ],
    [
      'names before arguments',
      { calls: named, reasoning: think },
      '<think>\nHm\n</think>\n\nI look.<tool_call>list_files{"path":"/tmp"}</tool_call><tool_call>now{}</tool_call>',
    ],
    [
      'names before arguments alone',
      { calls: named, callsFirst: true, reasoning: null },
      '<tool_call>list_files{"path":"/tmp"}</tool_call><tool_call>now{}</tool_call>',
    ],
    [
      'calls between tags alone',
      { calls: tagged, callsFirst: true, reasoning: null },
      `${hermes}\n${hermes}`,
    ],
    [
      'calls in Python',
      { calls: lfm2, reasoning: think },
      `<think>\nHm\n</think>\n\nI look.\n${pythonOpen}[list_files(path="/tmp", deep=True), now()]${pythonClose}`,
    ],
    [
      'calls in Python alone',
      { calls: lfm2, callsFirst: true, reasoning: null },
      `${pythonOpen}[list_files(path='/t\\'mp', a=[{"b": None}])]${pythonClose}`,
    ],
    ['bare calls', { calls: bare, reasoning: null }, `${llama}; ${llama}`],
    [
      'bare calls after reasoning',
      { calls: bare, reasoning: { ...think, opened: true } },
      `Hm\n</think>\n\n${call}`,
    ],
    ['fields in another order', { calls: bare, reasoning: null }, '{"parameters": {"a": [1]}, "name": "x"}'],
  ])('has no piece of a tag or of a call in its content or reasoning: %s', (_, format, text) => {
    const whole = read(format, text);
    for (let length = 0; length < text.length; length++) {
      const { content, reasoning, calls } = read(format, text.slice(0, length), { isCut: true });
      expect(whole.content.startsWith(content.trimEnd())).toBe(true);
      expect(whole.reasoning.startsWith(reasoning.trimEnd())).toBe(true);
      for (const [index, [name, written]] of calls.entries()) {
        expect(name).toBe(whole.calls[index]?.[0]);
        expect(whole.calls[index]?.[1].startsWith(written)).toBe(true);
      }
    }
  });

  it('keeps JSON that is no call', () => {
    for (const text of ['{"a": 1, "b', '{"name": "Ann", "age', '{"name": "Ann", "age": 3'])
      expect(read({ calls: bare, reasoning: null }, text, { isCut: true }).content).toBe(text);
  });
});

it('arguments of a call whose fields have another order keep every digit', () => {
  const text = '{"parameters": {"id": 2512292042121000001, "x": 1.0, "10": 1e400, "2": 1}, "name": "x"}';
  expect(read({ calls: bare, reasoning: null }, text).calls).toEqual([
    ['x', '{"id":2512292042121000001,"x":1.0,"10":1e400,"2":1}'],
  ]);
});
