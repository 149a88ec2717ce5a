import { describe, expect, it } from 'vitest';
import { type ReplyPiece, TextReplyReader } from '../../../src/language/chat/text-reply-reader.ts';

const tagged = { open: '<tool_call>', close: '</tool_call>', argumentsField: 'arguments' } as const;
const bare = { open: '', close: '', argumentsField: 'parameters' } as const;
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

type Format = ConstructorParameters<typeof TextReplyReader>[0];

/** Read in one piece, and character by character: both must be the same. */
function read(format: Format, text: string) {
  const whole = new TextReplyReader(format);
  const atOnce = summary([...whole.push(text), ...whole.end()]);
  const reader = new TextReplyReader(format);
  const pieces = [...text].flatMap((character) => reader.push(character));
  expect(summary([...pieces, ...reader.end()])).toEqual(atOnce);
  return atOnce;
}

describe('calls between tags', () => {
  const format = { calls: tagged, reasoning: think };

  it('are read after reasoning and text', () => {
    const call =
      '<tool_call>\n{"name": "add", "arguments": {"a": "}</tool_call>", "b": [1, {}]}}\n</tool_call>';
    expect(read(format, `<think>\nHm\n</think>\n\nI add.\n${call}\n${call}`)).toEqual({
      reasoning: '\nHm',
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

describe('bare calls', () => {
  const format = { calls: bare, reasoning: null };

  it('are whole replies', () => {
    const text = '{"name": "add", "parameters": {"a": 1}}';
    expect(read(format, text).calls).toEqual([['add', '{"a": 1}']]);
    expect(read(format, `${text}; ${text}`).calls).toHaveLength(2);
    expect(read(format, `See ${text}`)).toEqual({ reasoning: '', content: `See ${text}`, calls: [] });
  });

  it('are not every JSON', () => {
    for (const text of ['{"a": 1}', '{"a": {"name": "x"}}', '{"unfinished'])
      expect(read(format, text)).toEqual({ reasoning: '', content: text, calls: [] });
  });
});
