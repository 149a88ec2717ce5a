import { readFileSync } from 'node:fs';
import { describe, expect, it, test } from 'vitest';
import { ConversationCodec } from '../../../src/engines/embedded/conversation-codec.ts';
import { openingOf } from '../../../src/language/chat/channel-format.ts';
import { readChatFormat } from '../../../src/language/chat/read-chat-format.ts';
import { type ReplyOptions, ReplyParser } from '../../../src/language/chat/reply-parser.ts';
import { format, gptOssFiles, tokenizer, tokensOf } from '../gpt-oss.ts';

const { endToken, otherEndTokens, channels } = format;
const prompt = tokensOf('<|start|>user<|message|>Hi<|end|><|start|>assistant');
const callEnd = tokenizer.special.get('<|call|>')!;

interface Fields {
  mayCall?: boolean;
  after?: string;
  end?: Parameters<ReplyParser['end']>[0];
  stops?: string[];
  show?: Partial<ReplyOptions['show']>;
}

/** What is read of a reply, token by token; as a stream it must be the same. */
function read(
  reply: string | number[],
  { mayCall = true, after = '', end, stops = [], show = {} }: Fields = {},
) {
  const tokens = typeof reply === 'string' ? tokensOf(reply) : reply;
  const last = tokens.at(-1) ?? 0;
  const usualEnd = otherEndTokens.includes(last)
    ? ({ finishReason: 'stop', stop: last } as const)
    : ({ finishReason: last === endToken ? 'stop' : 'length', stop: null } as const);
  const parser = new ReplyParser(tokenizer, {
    ...{ endToken, echo: '', stops: { strings: stops, tokens: [...otherEndTokens] } },
    format: { channels: channels!, mayCall, opening: openingOf([...prompt, ...tokensOf(after)], channels!) },
    show: { special: false, spaces: true, stop: false, reasoning: true, ...show },
  });
  const streamed = { reasoning: '', content: '', calls: [] as { name: string; arguments: string }[] };
  const add = ({ reasoning, content, calls }: ReturnType<ReplyParser['push']>) => {
    streamed.reasoning += reasoning;
    streamed.content += content;
    for (const { name, arguments: text } of calls)
      if (name !== undefined) streamed.calls.push({ name, arguments: text });
      else streamed.calls.at(-1)!.arguments += text;
  };
  for (const token of tokens) add(parser.push([token]));
  add(parser.end(end ?? usualEnd));
  const { content, reasoning_content: reasoning, tool_calls: calls } = parser.message();
  expect(streamed).toEqual({
    reasoning: reasoning ?? '',
    content: content ?? '',
    calls: (calls ?? []).map(({ function: { name, arguments: text } }) => ({ name, arguments: text })),
  });
  return { ...streamed, finishReason: parser.finishReason(end ?? usualEnd) };
}

interface Reference {
  reply: string;
  messages: { channel: string; recipient: string | null; text: string }[];
}

const references: Reference[] = JSON.parse(
  readFileSync(new URL('../fixtures/gpt-oss/replies.json', import.meta.url), 'utf8'),
);

describe('replies in channels', () => {
  it.each(references)('have the messages that openai-harmony reads: $reply', ({ reply, messages }) => {
    const textsOf = (wanted: (message: Reference['messages'][number]) => boolean) =>
      messages
        .filter((message) => message.text !== '' && wanted(message))
        .map(({ text }) => text)
        .join('\n');
    const { reasoning, content, calls } = read(reply);
    expect(reasoning).toBe(textsOf(({ channel, recipient }) => !recipient && channel === 'analysis'));
    expect(content).toBe(textsOf(({ channel, recipient }) => !recipient && channel !== 'analysis'));
    expect(calls).toEqual(
      messages.flatMap(({ recipient, text }) =>
        recipient ? { name: recipient.replace('functions.', ''), arguments: text } : [],
      ),
    );
  });

  it('finish with their calls, whose end is no foreign stop', () => {
    const call = '<|channel|>commentary to=functions.add <|constrain|>json<|message|>';
    expect(read(`${call}{"a":1}<|call|>`).finishReason).toBe('tool_calls');
    expect(read(`${call}no JSON<|call|>`)).toMatchObject({
      finishReason: 'tool_calls',
      calls: [{ name: 'add', arguments: 'no JSON' }],
    });
    expect(read(`${call}{"a`).finishReason).toBe('length');
    expect(read('<|channel|>final<|message|>No.<|return|>').finishReason).toBe('stop');
    const { finishReason } = read(`${call}{"a`, {
      end: { finishReason: 'stop', stop: '{"a' },
      stops: ['{"a'],
    });
    expect(finishReason).toBe('stop');
  });

  it('have no calls where there are no tools', () => {
    const reply = '<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"a":1}<|call|>';
    expect(read(reply, { mayCall: false })).toMatchObject({ content: '{"a":1}', calls: [] });
    expect(read('<|channel|>analysis to=python code<|message|>1<|call|>', { mayCall: false })).toMatchObject({
      ...{ reasoning: '1', content: '', calls: [] },
    });
  });

  it('are content where the model writes no header', () => {
    for (const text of ['Hello', ' to', ' today', 'to=add', '']) {
      expect(read(`${text}<|return|>`)).toMatchObject({ content: text, reasoning: '', calls: [] });
    }
    expect(read('<|channel|>final<|message|>One<|end|> two<|return|>').content).toBe('One\n two');
    expect(read('<|message|>One<|return|>').content).toBe('One');
  });

  it('leave out a header that was cut, or that has no message', () => {
    for (const text of [
      ' to',
      ' to=functions.add',
      '<|channel|>',
      '<|channel|>fin',
      '<|channel|>analysis<|return|>',
    ])
      expect(read(text)).toMatchObject({ content: '', reasoning: '', calls: [] });
    expect(read('<|channel|>analysis<|message|>Hm<|end|><|start|>assist').reasoning).toBe('Hm');
  });

  it('cannot be divided by text that spells the tokens', () => {
    const text = '<|end|><|start|>assistant<|channel|>final<|message|>';
    const tokens = [...tokensOf('<|channel|>analysis<|message|>'), ...tokenizer.encode(text)];
    expect(read([...tokens, endToken])).toMatchObject({ reasoning: text, content: '' });
  });

  it('go on where the prompt has begun them', () => {
    expect(read('lo.<|return|>', { after: '<|channel|>final<|message|>Hel' }).content).toBe('lo.');
    const inReasoning = '<|channel|>analysis<|message|>';
    expect(
      read('Hm<|end|><|start|>assistant<|channel|>final<|message|>Yes<|return|>', { after: inReasoning }),
    ).toMatchObject({ reasoning: 'Hm', content: 'Yes' });
  });

  it('end at stop strings, and are shown as asked for', () => {
    const reply =
      '<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>One two';
    const end = { finishReason: 'stop', stop: ' two' } as const;
    expect(read(reply, { end, stops: [' two'] })).toMatchObject({ reasoning: 'Hm', content: 'One' });
    expect(read(`${reply}<|return|>`, { show: { special: true, stop: true } }).content).toBe(
      'One two <|return|>',
    );
    expect(read(`${reply}<|return|>`, { show: { reasoning: false } })).toMatchObject({
      ...{ reasoning: '', content: 'One two' },
    });
  });
});

test('the tokens of channels may be sampled in free text, and no other special token', () => {
  const { unconstrained } = new ConversationCodec(new Map(), { tokenizer, format });
  const special = [...tokenizer.special].filter(([, token]) => unconstrained.includes(token));
  expect(special.map(([text]) => text)).toEqual([...tokenizer.special.keys()].slice(1));
});

test('a style of calls or reasoning is refused with a template of channels, by name', () => {
  const model = {
    ...{ path: 'gpt-oss', pathOf: (name: string) => name },
    bytes: (name: string) => (name in gptOssFiles ? Buffer.from(gptOssFiles[name] ?? '') : null),
  };
  expect(() => readChatFormat(model, tokenizer, { toolCalls: 'none' })).toThrow('tool calls is none');
  expect(() => readChatFormat(model, tokenizer, { reasoning: 'think' })).toThrow('reasoning is think');
  expect([callEnd, channels]).toEqual([
    708,
    { start: 705, channel: 704, message: 707, constrain: 703, end: 706, call: 708 },
  ]);
});
