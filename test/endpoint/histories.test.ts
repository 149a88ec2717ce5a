import Anthropic from '@anthropic-ai/sdk';
import fc from 'fast-check';
import OpenAI from 'openai';
import type { ChatCompletionMessageParam } from 'openai/resources';
import type { ResponseInputItem } from 'openai/resources/responses/responses';
import { expect, test } from 'vitest';
import type { ChatCompletionRequest, ToolCall } from '../../src/contract/index.ts';
import type { FakePolicy } from '../model/fake-service.ts';
import { expectExact, openDesk, openRollout, orderParameters } from './support.ts';

/** `previous`: names the response before, where that is what the conversation ended in. */
const protocols = [
  ...(['chat', 'chat stream', 'responses', 'responses stream'] as const),
  ...(['previous', 'messages', 'messages stream'] as const),
];
type Protocol = (typeof protocols)[number];

/** A message as the agent has it. */
interface Line {
  message: {
    role: 'system' | 'user' | 'assistant' | 'tool';
    content: string;
    calls?: ToolCall[];
    call?: string;
  };
  /** A reply whose prompt was edited after it was sampled: it can only go out as text. */
  edited?: boolean;
  /** The response that the reply came in. */
  response?: string;
}

/** What an agent does with one of its conversations, by its number. */
type Action =
  | { type: 'go on'; conversation: number; say: string; protocol: Protocol }
  | { type: 'begin'; say: string; system: string; protocol: Protocol }
  | { type: 'fork'; conversation: number }
  | { type: 'compact'; conversation: number }
  | { type: 'edit'; conversation: number; line: number };

const say = fc.constantFrom('a', 'b');
const protocol = fc.constantFrom(...protocols);
const conversation = fc.nat(6);
const action: fc.Arbitrary<Action> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ type: fc.constant('go on'), conversation, say, protocol }) },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant('begin'),
      say,
      system: fc.constantFrom('main', 'sub'),
      protocol,
    }),
  },
  fc.record({ type: fc.constant('fork'), conversation }),
  fc.record({ type: fc.constant('compact'), conversation }),
  fc.record({ type: fc.constant('edit'), conversation, line: fc.nat(8) }),
);
/** Batches of actions: those of one batch go on at the same time. */
const plan = fc.array(fc.array(action, { minLength: 1, maxLength: 5 }), { minLength: 1, maxLength: 6 });

/** Says the same often, so that prompts and replies coincide. */
const fewReplies: FakePolicy = ({ seed }) => {
  const call = (order: number) => ({ name: 'order', arguments: `{ "order" :  ${order}.0 }` });
  const replies = [{ text: 'yes' }, { text: 'yes' }, { text: '' }, { toolCalls: [call(1)] }];
  return replies[(seed ?? 0) % 5] ?? { text: 'look', toolCalls: [call(1), call(2)] };
};

test('whatever an agent does with its conversations, what was sampled is there once and exactly', {
  tags: ['long'],
}, async () => {
  await using desk = await openDesk(fewReplies);
  let seed = 0;
  await fc.assert(
    fc.asyncProperty(plan, async (batches) => {
      desk.service.requests.length = 0;
      const { trajectory, endpoint, end } = openRollout({ seed: seed++ });
      const { baseUrl, apiKey } = await endpoint(desk.model);
      const agent = new TryingAgent({ baseURL: baseUrl, apiKey, maxRetries: 0 });
      for (const batch of batches) await agent.do(batch);
      for (const { call, edited } of agent.sent) {
        const request = requestOf(desk.service.requests, call);
        const replies = request.messages.filter(({ role }) => role === 'assistant');
        expect(replies.map((message) => !('token_ids' in message))).toEqual(edited);
      }
      expect(trajectory.histories.length).toBeLessThanOrEqual(agent.beginnings);
      if (agent.sent.length > 0) expectExact(trajectory, desk.service.requests);
      end();
    }),
    { seed: 11, numRuns: 120 },
  );
});

/** The request that the agent numbered so. */
function requestOf(requests: readonly ChatCompletionRequest[], call: string): ChatCompletionRequest {
  const found = requests.find((request) => (request.metadata?.call ?? request.user) === call);
  if (!found) throw new TypeError(`no request ${call}`);
  return found;
}

class TryingAgent {
  readonly sent: { call: string; edited: boolean[] }[] = [];
  /** Conversations that cannot but be histories of their own. */
  beginnings = 0;
  readonly #client: OpenAI;
  readonly #anthropic: Anthropic;
  readonly #conversations: Line[][] = [];
  #edits = 0;

  constructor(address: { baseURL: string; apiKey: string; maxRetries: number }) {
    this.#client = new OpenAI(address);
    this.#anthropic = new Anthropic({ ...address, authToken: null });
  }

  async do(batch: Action[]): Promise<void> {
    const busy = new Set<Line[]>();
    const calls: Promise<void>[] = [];
    for (const action of batch) {
      if (action.type === 'begin') {
        const lines: Line[] = [{ message: { role: 'system', content: action.system } }];
        this.#conversations.push(lines);
        this.beginnings++;
        busy.add(lines);
        calls.push(this.#call(lines, action.say, action.protocol));
        continue;
      }
      const lines = this.#conversations[action.conversation % Math.max(1, this.#conversations.length)];
      if (!lines || busy.has(lines)) continue;
      if (action.type === 'go on') {
        busy.add(lines);
        calls.push(this.#call(lines, action.say, action.protocol));
      } else this.#change(lines, action);
    }
    await Promise.all(calls);
  }

  #change(lines: Line[], action: Exclude<Action, { type: 'begin' | 'go on' }>): void {
    this.beginnings++;
    if (action.type === 'fork') this.#conversations.push(structuredClone(lines));
    else if (action.type === 'compact') {
      const summary = `summary ${this.#edits++}`;
      lines.splice(1, lines.length, { message: { role: 'user', content: summary } });
    } else {
      const at = action.line % lines.length;
      const line = lines[at];
      if (!line || line.message.role === 'assistant') return;
      line.message.content = `edit ${this.#edits++}`;
      for (const later of lines.slice(at)) {
        delete later.response;
        if (later.message.role === 'assistant') later.edited = true;
      }
    }
  }

  async #call(lines: Line[], text: string, protocol: Protocol): Promise<void> {
    lines.push({ message: { role: 'user', content: text } });
    const id = String(this.sent.length);
    const replies = lines.filter(({ message }) => message.role === 'assistant');
    this.sent.push({ call: id, edited: replies.map(({ edited }) => edited ?? false) });
    const stream = protocol.endsWith('stream');
    const reply = protocol.startsWith('chat')
      ? { message: await this.#chat(lines, id, stream) }
      : protocol.startsWith('messages')
        ? { message: await this.#message(lines, id, stream) }
        : await this.#respond(lines, id, protocol);
    lines.push(reply);
    for (const { id: call } of reply.message.calls ?? [])
      lines.push({ message: { role: 'tool', call, content: 'paid' } });
  }

  async #chat(lines: Line[], call: string, stream: boolean): Promise<Line['message']> {
    const request = {
      model: 'any',
      messages: lines.map(({ message }) => toChat(message)),
      tools: [{ type: 'function' as const, function: { name: 'order', parameters: { ...orderParameters } } }],
      metadata: { call },
    };
    const completion = stream
      ? await this.#client.chat.completions.stream(request).finalChatCompletion()
      : await this.#client.chat.completions.create(request);
    const { content, tool_calls = [] } = completion.choices[0]?.message ?? {};
    return reply(
      content ?? '',
      tool_calls.flatMap((made) =>
        made.type === 'function' ? [{ ...made, function: { ...made.function } }] : [],
      ),
    );
  }

  async #message([first, ...lines]: Line[], call: string, stream: boolean): Promise<Line['message']> {
    const isSystem = first?.message.role === 'system';
    const request: Anthropic.MessageCreateParamsNonStreaming = {
      ...{ model: 'any', max_tokens: 100, metadata: { user_id: call } },
      ...(isSystem ? { system: first.message.content } : {}),
      messages: (isSystem || !first ? lines : [first, ...lines]).map(({ message }) => toMessage(message)),
      tools: [{ name: 'order', input_schema: { ...orderParameters, required: ['order'] } }],
    };
    const { content } = stream
      ? await this.#anthropic.messages.stream(request).finalMessage()
      : await this.#anthropic.messages.create(request);
    return reply(
      content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join(''),
      content.flatMap((block) =>
        block.type === 'tool_use'
          ? [
              {
                id: block.id,
                type: 'function',
                function: { name: block.name, arguments: JSON.stringify(block.input) },
              },
            ]
          : [],
      ),
    );
  }

  async #respond(lines: Line[], call: string, protocol: Protocol): Promise<Line> {
    const last = lines.findLastIndex(({ message }) => message.role === 'assistant');
    const previous = protocol === 'previous' ? lines[last]?.response : undefined;
    const request = {
      model: 'any',
      ...(previous === undefined ? {} : { previous_response_id: previous }),
      input: lines.slice(previous === undefined ? 0 : last + 1).flatMap(({ message }) => toItems(message)),
      tools: [{ type: 'function' as const, name: 'order', parameters: { ...orderParameters }, strict: true }],
      metadata: { call },
    };
    const response = protocol.endsWith('stream')
      ? await this.#client.responses.stream(request).finalResponse()
      : await this.#client.responses.create(request);
    const calls = response.output.flatMap((item) => (item.type === 'function_call' ? [item] : []));
    const message = reply(
      response.output_text,
      calls.map(({ call_id, name, arguments: written }) => ({
        id: call_id,
        type: 'function' as const,
        function: { name, arguments: written },
      })),
    );
    return { message, response: response.id };
  }
}

/** Arguments are read and written again, as agents' libraries do. */
function reply(content: string, calls: ToolCall[]): Line['message'] {
  const rewritten = calls.map((call) => ({
    ...call,
    function: { ...call.function, arguments: JSON.stringify(JSON.parse(call.function.arguments)) },
  }));
  return { role: 'assistant', content, ...(calls.length > 0 ? { calls: rewritten } : {}) };
}

function toChat({ role, content, calls, call }: Line['message']): ChatCompletionMessageParam {
  if (role === 'tool') return { role, content, tool_call_id: call ?? '' };
  if (role === 'assistant') return { role, content, ...(calls ? { tool_calls: calls } : {}) };
  return { role, content };
}

function toMessage({ role, content, calls = [], call }: Line['message']): Anthropic.MessageParam {
  if (role === 'tool')
    return { role: 'user', content: [{ type: 'tool_result', tool_use_id: call ?? '', content }] };
  if (role !== 'assistant') return { role, content };
  const made = calls.map(({ id, function: { name, arguments: written } }) => ({
    ...{ type: 'tool_use' as const, id, name },
    input: JSON.parse(written),
  }));
  return { role, content: [...(content === '' ? [] : [{ type: 'text' as const, text: content }]), ...made] };
}

function toItems({ role, content, calls = [], call }: Line['message']): ResponseInputItem[] {
  if (role === 'tool') return [{ type: 'function_call_output', call_id: call ?? '', output: content }];
  if (role !== 'assistant') return [{ role, content }];
  return [
    ...(content === '' && calls.length > 0 ? [] : [{ role, content }]),
    ...calls.map((made) => ({
      type: 'function_call' as const,
      call_id: made.id,
      name: made.function.name,
      arguments: made.function.arguments,
    })),
  ];
}
