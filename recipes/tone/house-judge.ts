import type { LanguageModelV4, LanguageModelV4Prompt } from '@ai-sdk/provider';
import { z } from 'zod';
import { type Reply, replySchema } from './reply.ts';
import { type Mood, moodOf } from './scenarios.ts';

/** What this judge likes to hear in each mood. */
const liked: Record<Mood, Reply> = {
  angry: { opening: 'so sorry', body: 'we fix it today', closing: 'you can count on us' },
  hurried: { opening: 'sure', body: 'it is on its way', closing: 'bye' },
  lost: { opening: 'hello', body: 'here are the steps', closing: 'ask me anything' },
  glad: { opening: 'great', body: 'enjoy it', closing: 'thanks to you' },
};

/** How many of the three sentences are what the judge likes after such a message. */
export function liking(message: string, reply: Reply): number {
  const mood = moodOf(message);
  if (mood === undefined) return 0;
  const { opening, body, closing } = liked[mood];
  return Number(reply.opening === opening) + Number(reply.body === body) + Number(reply.closing === closing);
}

const line = z.object({ role: z.string(), content: z.string() });

/** The messages of a part of the judge's prompt, each a line of JSON. */
const messagesOf = (part: string) =>
  part
    .split('\n')
    .filter((text) => text.startsWith('{'))
    .map((text) => line.parse(JSON.parse(text)));

/** The conversations in the judge's prompt, by id: the message, and the reply to it. */
function conversationsOf(prompt: string): { id: string; message: string; reply: Reply }[] {
  const context = /<context>([\s\S]*?)<\/context>/.exec(prompt)?.[1] ?? '';
  return [...prompt.matchAll(/<conversation id="([^"]+)">([\s\S]*?)<\/conversation>/g)].map(
    ([, id = '', own = '']) => {
      const messages = messagesOf(context + own);
      const said = (role: string) => messages.findLast((message) => message.role === role)?.content ?? '';
      return { id, message: said('user'), reply: replySchema.parse(JSON.parse(said('assistant'))) };
    },
  );
}

/** Share of the others that it is better than; ties count half. */
function standing(own: number, all: readonly number[]): number {
  if (all.length === 1) return 0.5;
  const better = all.filter((other) => other < own).length;
  const equal = all.filter((other) => other === own).length - 1;
  return (better + equal / 2) / (all.length - 1);
}

/** What the judge answers: each conversation ranked among those it is shown with. */
export function judged(prompt: string): { scores: { id: string; explanation: string; score: number }[] } {
  const conversations = conversationsOf(prompt);
  const likings = conversations.map(({ message, reply }) => liking(message, reply));
  return {
    scores: conversations.map(({ id }, at) => {
      const own = likings[at] ?? 0;
      return { id, explanation: `${own} of 3 sentences fit`, score: standing(own, likings) };
    }),
  };
}

const textOf = (prompt: LanguageModelV4Prompt): string =>
  prompt
    .flatMap(({ role, content }) => (role === 'user' ? content : []))
    .flatMap((part) => (part.type === 'text' ? [part.text] : []))
    .join('\n');

const unknown = { total: undefined, noCache: undefined, cacheRead: undefined, cacheWrite: undefined };

/**
 * A function in the place of a hosted model, so that the recipe runs without a key. It reads what a model would read,
 * the prompt of the relative judge, and answers in its format.
 */
export const houseJudge: LanguageModelV4 = {
  specificationVersion: 'v4',
  provider: 'recipe',
  modelId: 'house-judge',
  supportedUrls: {},
  doGenerate: async ({ prompt }) => ({
    content: [{ type: 'text', text: JSON.stringify(judged(textOf(prompt))) }],
    finishReason: { unified: 'stop', raw: 'stop' },
    usage: {
      inputTokens: unknown,
      outputTokens: { total: undefined, text: undefined, reasoning: undefined },
    },
    warnings: [],
  }),
  doStream: async () => {
    throw new TypeError('The house judge does not stream.');
  },
};
