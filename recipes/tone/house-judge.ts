import type { LanguageModelV4, LanguageModelV4Prompt } from '@ai-sdk/provider';
import { z } from 'zod';
import { type Reply, replySchema } from './reply.ts';
import { type Mood, moodOf } from './scenarios.ts';

/** The favourite reply for each mood. */
const favourites: Record<Mood, Reply> = {
  angry: { opening: 'so sorry', body: 'we fix it today', closing: 'you can count on us' },
  hurried: { opening: 'sure', body: 'it is on its way', closing: 'bye' },
  lost: { opening: 'hello', body: 'here are the steps', closing: 'ask me anything' },
  glad: { opening: 'great', body: 'enjoy it', closing: 'thanks to you' },
};

/** Number of the three sentences that the judge likes as a reply to the message. */
export function liking(message: string, reply: Reply): number {
  const mood = moodOf(message);
  if (mood === undefined) return 0;
  const { opening, body, closing } = favourites[mood];
  return Number(reply.opening === opening) + Number(reply.body === body) + Number(reply.closing === closing);
}

const line = z.object({ role: z.string(), content: z.string() });

/** The messages in a part of the judge's prompt: one JSON line each. */
const messagesOf = (part: string) =>
  part
    .split('\n')
    .filter((text) => text.startsWith('{'))
    .map((text) => line.parse(JSON.parse(text)));

/** The conversations in the judge's prompt: id, message and reply. */
function conversationsOf(prompt: string): { id: string; message: string; reply: Reply }[] {
  const context = /<context>([\s\S]*?)<\/context>/.exec(prompt)?.[1] ?? '';
  return [...prompt.matchAll(/<conversation id="([^"]+)">([\s\S]*?)<\/conversation>/g)].map(
    ([, id = '', own = '']) => {
      const messages = messagesOf(context + own);
      const lastOf = (role: string) => messages.findLast((message) => message.role === role)?.content ?? '';
      return { id, message: lastOf('user'), reply: replySchema.parse(JSON.parse(lastOf('assistant'))) };
    },
  );
}

/** Share of the other conversations that score lower; ties count half. */
function rankShare(own: number, all: readonly number[]): number {
  if (all.length === 1) return 0.5;
  const better = all.filter((other) => other < own).length;
  const equal = all.filter((other) => other === own).length - 1;
  return (better + equal / 2) / (all.length - 1);
}

/** The judge's answer: each conversation's rank among those in the prompt. */
export function judged(prompt: string): { scores: { id: string; explanation: string; score: number }[] } {
  const conversations = conversationsOf(prompt);
  const likings = conversations.map(({ message, reply }) => liking(message, reply));
  return {
    scores: conversations.map(({ id }, at) => {
      const own = likings[at] ?? 0;
      return { id, explanation: `${own} of 3 sentences fit`, score: rankShare(own, likings) };
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
 * A function in place of a hosted model, so that the recipe runs without a key. It reads the prompt of the relative
 * judge and answers in its format, as a model would.
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
