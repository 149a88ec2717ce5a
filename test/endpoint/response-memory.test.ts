import { expect, test } from 'vitest';
import {
  conversationOf,
  type RememberedResponse,
  ResponseMemory,
} from '../../src/endpoint/response-memory.ts';

const response = (content: string, previous?: RememberedResponse): RememberedResponse => ({
  previous,
  messages: [{ role: 'user', content }],
  callIds: [undefined],
  callId: undefined,
  output: [],
});

test('a long conversation is assembled in order from responses that each hold only their own messages', () => {
  let last: RememberedResponse | undefined;
  for (let turn = 0; turn < 5000; turn++) last = response(String(turn), last);
  const { messages, callIds } = conversationOf(last);
  expect(messages.map(({ content }) => content)).toEqual(
    Array.from({ length: 5000 }, (_, turn) => String(turn)),
  );
  expect(callIds).toHaveLength(5000);
});

test('the oldest responses are dropped, and a request for one is refused', () => {
  const memory = new ResponseMemory();
  for (let index = 0; index <= 10_000; index++) memory.keep(`resp_${index}`, response(String(index)));
  expect(() => memory.require('resp_0')).toThrow(/no response "resp_0"/);
  expect(memory.require('resp_1').messages).toHaveLength(1);
});
