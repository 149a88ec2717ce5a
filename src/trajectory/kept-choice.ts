import { LRUCache } from 'lru-cache';
import { type Choice, withoutStep } from '../contract/index.ts';
import { getOrInsert } from '../util/get-or-insert.ts';

type Prompt = Pick<Choice, 'prompt_token_ids' | 'added_prompt_token_ids'>;

/** Whether a choice has its prompt, whole or as what it adds to the choice before. */
export const hasPrompt = (choice: Choice | undefined): boolean =>
  (choice?.prompt_token_ids ?? choice?.added_prompt_token_ids ?? null) !== null;

/** A copy of the choice with another prompt, or with none. */
export function withPrompt(choice: Choice, prompt: Prompt): Choice {
  const { prompt_token_ids: _, added_prompt_token_ids: __, credited_reward: credit, ...answered } = choice;
  return { ...answered, ...prompt, ...(credit === undefined ? {} : { credited_reward: credit }) };
}

/** The texts of a model's tokens by id, and the property of choices that looks them up. */
interface KnownTexts {
  texts: Map<number, string>;
  property: PropertyDescriptor;
}

/** Of the models that answered last; older choices keep theirs. */
const knownTexts = new LRUCache<string, KnownTexts>({ max: 16 });

/** Most texts of a model that are kept: as many as large vocabularies have. */
const maxTexts = 2 ** 18;

/**
 * A copy of the choice without a list of its own for `token_texts`, a quarter of the memory of a sampled token: the
 * property makes the list anew from the texts that all choices of the model share. A choice with another text for an id
 * keeps its list.
 * @param model Name of the model that answered.
 */
export function shareTexts(choice: Choice, model: string): Choice {
  const { token_ids: ids, token_texts: given } = choice;
  if (!ids || !given || ids.length !== given.length) return { ...choice };
  const { texts, property } = getOrInsert(knownTexts, withoutStep(model), newTexts);
  const isShared = ids.every((id, at) => {
    const text = given[at];
    if (text !== undefined && texts.size < maxTexts && !texts.has(id)) texts.set(id, text);
    return texts.get(id) === text;
  });
  if (!isShared) return { ...choice };
  // The order of fields stays, because repeated requests must be the same to the byte.
  const fields = { ...Object.getOwnPropertyDescriptors(choice), token_texts: property };
  return Object.create(Object.prototype, fields);
}

function newTexts(): KnownTexts {
  const texts = new Map<number, string>();
  const get = function (this: Choice): string[] {
    return (this.token_ids ?? []).map((id) => texts.get(id) ?? '');
  };
  return { texts, property: { enumerable: true, get } };
}
