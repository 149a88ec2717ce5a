import { generateText, jsonSchema, type ModelMessage, tool } from 'ai';
import fc from 'fast-check';
import { createClient, ModelHandle } from 'martingale';
import { runInTrajectory } from 'martingale/loop';
import { expect, test } from 'vitest';
import type { Choice, Message } from '../../src/contract/index.ts';
import { Trajectory } from '../../src/trajectory/index.ts';
import { expectExactly, type Sampled } from '../model/exact.ts';
import { render } from '../model/fake-service.ts';
import { ScriptedCompletions } from '../model/scripted-completions.ts';

/** A call goes on from a conversation that an earlier one left, or begins one; `asText` loses the sampled ids. */
const callArbitrary = fc.record({
  from: fc.nat({ max: 12 }),
  fresh: fc.boolean(),
  asText: fc.boolean(),
  user: fc.string({ maxLength: 3 }),
  // Reserved characters collide on purpose: two conversations may look alike for long.
  sampled: fc.array(fc.integer({ min: 97, max: 98 }), { minLength: 1, maxLength: 4 }),
});

/** The entries of a history with the prompts that its choices have by what they add. */
function withWholePrompts(entries: (Message | Choice)[]): (Message | Choice)[] {
  let known: number[] = [];
  return entries.map((entry) => {
    if (!('message' in entry)) return entry;
    const { added_prompt_token_ids: added, prompt_token_ids: whole, ...choice } = entry;
    const prompt = whole ?? [...known, ...(added ?? [])];
    known = [...prompt, ...(choice.token_ids ?? [])];
    return { ...choice, prompt_token_ids: prompt };
  });
}

test('whatever the calls, each choice is sent once, as it was answered, after the prompt it was sampled after', () => {
  fc.assert(
    fc.property(fc.array(callArbitrary, { maxLength: 25 }), (calls) => {
      const trajectory = new Trajectory();
      const conversations: Message[][] = [];
      const answered: Choice[] = [];
      for (const { from, fresh, asText, user, sampled } of calls) {
        const base = fresh ? [] : (conversations[from % Math.max(1, conversations.length)] ?? []);
        const messages: Message[] = [...base, { role: 'user', content: user }];
        const token_ids = [...sampled, 1_000_000];
        const content = String.fromCodePoint(...sampled);
        const { index } = trajectory.startCall();
        const promptTokenIds = render(messages);
        const choice: Choice = {
          index,
          message: { role: 'assistant', content },
          finish_reason: 'stop',
          token_ids,
          prompt_token_ids: [...promptTokenIds],
        };
        trajectory.record({ index, messages, tools: undefined, choice, promptTokenIds, model: 'm' });
        answered.push(choice);
        const reply: Message = asText
          ? { role: 'assistant', content: `${content}!` }
          : { role: 'assistant', content, token_ids };
        conversations.push([...messages, reply]);
      }

      const sent = trajectory.histories.map((history) => history.toBody().messages_and_choices);
      const choices = sent.flat().filter((entry) => 'message' in entry);
      expect(choices.sort((a, b) => a.index - b.index)).toEqual(answered);
      for (const entries of sent)
        for (const [at, entry] of entries.entries()) {
          if (!('message' in entry)) continue;
          const before = entries
            .slice(0, at)
            .map(
              (earlier): Message =>
                'message' in earlier ? { role: 'assistant', token_ids: earlier.token_ids } : earlier,
            );
          expect(render(before)).toEqual(entry.prompt_token_ids);
        }
      const added = trajectory.histories.map((history) => history.toBody('compact').messages_and_choices);
      expect(added.map(withWholePrompts)).toEqual(sent);
      // A history keeps one prompt whole.
      const kept = trajectory.choices.filter((choice) => choice.prompt_token_ids);
      expect(kept).toHaveLength(trajectory.histories.length);
    }),
    { seed: 20261121, numRuns: 300 },
  );
});

const name = 'local/shop/desk:step3';
const look = tool({ inputSchema: jsonSchema({ type: 'object' }) });

/** What an agent does with one of its conversations before it calls the policy on it. */
const moveArbitrary = fc.record({
  on: fc.nat({ max: 20 }),
  how: fc.oneof(
    { weight: 6, arbitrary: fc.constant('extend' as const) },
    ...(['begin', 'edit a user', 'edit a reply', 'compact', 'drop the stamps'] as const).map((how) => ({
      weight: 1,
      arbitrary: fc.constant(how),
    })),
  ),
  at: fc.nat({ max: 20 }),
  user: fc.constantFrom('a', 'b', 'go on'),
  reply: fc.record({
    // Few replies: conversations that look alike for long are what goes wrong.
    text: fc.constantFrom('', 'x', 'y'),
    call: fc.constantFrom(null, null, '{ "n" :  1.0 }', '{"n":1}', '{"n": 1'),
  }),
});

/** Calls of one moment, and the order in which they are answered. */
const momentArbitrary = fc.array(moveArbitrary, { minLength: 1, maxLength: 4 }).chain((moves) =>
  fc.record({
    moves: fc.constant(moves),
    order: fc.shuffledSubarray([...moves.keys()], { minLength: moves.length, maxLength: moves.length }),
  }),
);

type Move = typeof moveArbitrary extends fc.Arbitrary<infer Value> ? Value : never;

interface Spoken {
  messages: ModelMessage[];
  /** What was sampled at its end. */
  last: Sampled | undefined;
}

interface Asked {
  messages: ModelMessage[];
  /** What it goes on from, where nothing was changed. */
  extended: Sampled | undefined;
}

function prepare({ how, on, at, user }: Move, spoken: readonly Spoken[]): Asked {
  const next: ModelMessage = { role: 'user', content: user };
  const from = spoken[on % Math.max(1, spoken.length)];
  if (how === 'begin' || !from) return { messages: [next], extended: undefined };
  const { messages, last } = from;
  if (how === 'extend') return { messages: [...messages, next], extended: last };
  if (how === 'drop the stamps') return { messages: [...messages.map(withoutStamps), next], extended: last };
  if (how === 'compact') {
    const kept = messages.slice(-1).filter(({ role }) => role === 'assistant');
    return { messages: [{ role: 'user', content: 'SUMMARY' }, ...kept, next], extended: undefined };
  }
  const edited = messages.map((message, index) =>
    index === at % messages.length ? edit(message, how) : message,
  );
  return { messages: [...edited, next], extended: undefined };
}

function edit(message: ModelMessage, how: 'edit a user' | 'edit a reply'): ModelMessage {
  if (how === 'edit a user' && message.role === 'user') return { role: 'user', content: 'EDITED' };
  if (how === 'edit a reply' && message.role === 'assistant')
    return { role: 'assistant', content: 'REWRITTEN' };
  return message;
}

/** As it comes back from a store that keeps what it knows of. */
function withoutStamps(message: ModelMessage): ModelMessage {
  return JSON.parse(JSON.stringify(message, (key, value) => (key === 'providerOptions' ? undefined : value)));
}

/** What the tool answers, where the AI SDK has not answered in its place. */
function resultsOf(
  calls: readonly { toolCallId: string; toolName: string }[],
  answered: readonly ModelMessage[],
): ModelMessage[] {
  if (calls.length === 0 || answered.some(({ role }) => role === 'tool')) return [];
  const output = { type: 'text' as const, value: 'seen' };
  return [
    {
      role: 'tool',
      content: calls.map(({ toolCallId, toolName }) => ({
        type: 'tool-result',
        toolCallId,
        toolName,
        output,
      })),
    },
  ];
}

test('agents of the AI SDK that branch, edit, compact and call at once train on what was sampled, each once', async () => {
  const client = createClient({ baseUrl: 'http://127.0.0.1:1', apiKey: 'none' });
  await fc.assert(
    fc.asyncProperty(fc.array(momentArbitrary, { minLength: 1, maxLength: 8 }), async (moments) => {
      const completions = new ScriptedCompletions(name);
      const model = new ModelHandle({ client, name, completions: completions.source });
      const trajectory = new Trajectory({ policy: name });
      const spoken: Spoken[] = [];
      for (const { moves, order } of moments) {
        completions.script = moves.map(({ reply }) => reply);
        const asked = moves.map((move) => prepare(move, spoken));
        const answers = asked.map(({ messages }) =>
          runInTrajectory(trajectory, () =>
            generateText({ model: model.languageModel, tools: { look }, messages, maxRetries: 0 }),
          ),
        );
        const before = completions.sampled.length;
        await completions.release(order, answers);
        for (const [at, { response, toolCalls }] of (await Promise.all(answers)).entries()) {
          const { messages = [], extended } = asked[at] ?? {};
          const last = completions.sampled[before + order.indexOf(at)];
          if (extended)
            expect(last?.prompt.slice(0, extended.prompt.length + extended.tokens.length)).toEqual([
              ...extended.prompt,
              ...extended.tokens,
            ]);
          spoken.push({
            messages: [...messages, ...response.messages, ...resultsOf(toolCalls, response.messages)],
            last,
          });
        }
      }
      expect(trajectory.violation).toBeUndefined();
      expectExactly(trajectory, completions.sampled);
    }),
    { seed: 20261121, numRuns: 200 },
  );
  await client.close();
});
