import type { LanguageModelV4CallOptions } from '@ai-sdk/provider';
import { MockLanguageModelV4 } from 'ai/test';
import { Trajectory } from 'martingale';
import type { Choice, Message, Tool } from '../../../src/contract/index.ts';
import { saying } from '../../model/mock-replies.ts';

/** The contents of a judge's prompt. */
export interface Shown {
  text: string;
  instructions: string;
  /** Conversations by id, in prompt order. */
  conversations: Map<string, string>;
  /** Messages after the question: earlier answers and their errors. */
  after: string[];
}

/** A model that answers depending on its prompt: with an object, as JSON, or with text. */
export function judgeModel(answer: (shown: Shown, call: number) => unknown) {
  let calls = 0;
  return new MockLanguageModelV4({
    modelId: 'judge-1',
    doGenerate: async (options) => {
      const given = answer(readShown(options), calls++);
      return saying(typeof given === 'string' ? given : JSON.stringify(given));
    },
  });
}

export function readShown({ prompt }: Pick<LanguageModelV4CallOptions, 'prompt'>): Shown {
  const texts = prompt.map(({ content }) =>
    typeof content === 'string' ? content : content.map((part) => ('text' in part ? part.text : '')).join(''),
  );
  const [instructions = '', text = '', ...after] = texts;
  const conversations = new Map(
    [...text.matchAll(/<conversation id="(\w+)">\n([\s\S]*?)\n<\/conversation>/g)].map(
      ([, id = '', body = '']) => [id, body] as const,
    ),
  );
  return { text, instructions, conversations, after };
}

/** Scores each conversation by a word in it. */
export const scoringBy =
  (scores: Record<string, number>) =>
  ({ conversations }: Shown) => ({
    scores: [...conversations].map(([id, body]) => {
      const word = Object.keys(scores).find((candidate) => body.includes(candidate)) ?? '';
      return { id, explanation: `it says ${word}`, score: scores[word] ?? 0 };
    }),
  });

/** A trajectory of these conversations. The last message of each is from the policy. */
export function trajectoryOf(
  ...conversations: { messages: Message[]; said: Choice['message']; tools?: Tool[] }[]
): Trajectory {
  const trajectory = new Trajectory();
  for (const [at, { messages, said, tools }] of conversations.entries()) {
    const { index } = trajectory.startCall();
    const choice: Choice = { index: 0, message: said, finish_reason: 'stop', token_ids: [at] };
    trajectory.record({ index, messages, tools, choice, promptTokenIds: [index + 1], model: 'm' });
  }
  return trajectory;
}

/** One question and its answer. */
export const answering = (content: string, question = 'Tell a joke.') =>
  trajectoryOf({ messages: [{ role: 'user', content: question }], said: { role: 'assistant', content } });
