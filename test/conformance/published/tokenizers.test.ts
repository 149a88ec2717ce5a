import { execFile } from 'node:child_process';
import { cp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { messageSchema } from '../../../src/contract/chat/messages.ts';
import type { Message, Tool } from '../../../src/contract/index.ts';
import { openSource } from '../../../src/engines/embedded/checkpoint/source.ts';
import { toTurn } from '../../../src/language/chat/conversation.ts';
import { readChatFormat } from '../../../src/language/chat/read-chat-format.ts';
import { ConversationRenderer } from '../../../src/language/chat/render.ts';
import { readTokenizer } from '../../../src/language/tokenizer/read-tokenizer.ts';
import { temporaryFolder } from '../../support/files.ts';
import { testScale } from '../../support/size.ts';
import { publishedGguf, publishedTokenizer, referencePython } from './packages.ts';

const run = promisify(execFile);
const what = 'published tokenizers and templates beside transformers';

interface Reference {
  texts: [text: string, tokens: number[], decoded: string][];
  prompts: { messages: Message[]; tools: Tool[] | null; follows: boolean; tokens: number[] | null }[];
}

/** Those whose templates leave out calls. */
const withoutCalls = new Set(['smollm2', 'llama3', 'llama3_1', 'gemma3']);

const gptOssTemplate = join(import.meta.dirname, '../../language/fixtures/templates/gpt-oss.jinja');

/** A folder of a published model with its tokenizer and template; null if it cannot be fetched. */
async function folderOf(name: string): Promise<string | null> {
  if (name !== 'smollm2') return await publishedTokenizer(name);
  const gguf = await publishedGguf(what);
  if (gguf === null) return null;
  const [source, folder] = [await openSource(gguf), await temporaryFolder()];
  for (const file of await source.sharedFiles())
    await writeFile(join(folder, file), source.bytes(file, Number.POSITIVE_INFINITY) ?? '');
  return folder;
}

describe.each([
  ...['smollm2', 'qwen2_5', 'qwen3', 'llama3', 'llama3_1', 'llama3_2', 'gemma3', 'deepseek_v3', 'gptoss'],
])('the published tokenizer and template of %s', { tags: ['long'] }, (name) => {
  it('are those of transformers, for thousands of odd texts and for conversations with tools', async ({
    skip,
  }) => {
    const [python, published] = [await referencePython(what), await folderOf(name)];
    if (python === null || published === null) return skip();
    const folder = await temporaryFolder();
    await cp(published, folder, { recursive: true });
    // Its package has no template.
    if (name === 'gptoss') await cp(gptOssTemplate, join(folder, 'chat_template.jinja'));
    // These packages name no ends of replies; the models' own files name these.
    const ends = {
      ...{ llama3: '<|eot_id|>', qwen: '<|im_end|>', smollm: '<|im_end|>' },
      gemma3: '<end_of_turn>',
      deepseek: '<｜end▁of▁sentence｜>',
      gptoss: '<|return|>',
    };
    const [, end = ''] = Object.entries(ends).find(([family]) => name.startsWith(family)) ?? [];
    const tokenizer = readTokenizer(folder);
    await writeFile(
      join(folder, 'generation_config.json'),
      JSON.stringify({ eos_token_id: tokenizer.added.get(end) }),
    );
    const program = join(import.meta.dirname, 'reference.py');
    const { stdout } = await run(python, [program, folder, String(1000 * testScale)], {
      maxBuffer: 2 ** 30,
    });
    const reference: Reference = JSON.parse(stdout);

    const different = reference.texts.filter(([text, tokens, decoded]) => {
      const own = tokenizer.encode(text);
      return own.join() !== tokens.join() || tokenizer.decode(own) !== decoded;
    });
    // The tokenizers library composes characters by Unicode 9: it does not know later combining marks. It tells several ▁
    // from spaces beside them.
    const odd = name.startsWith('qwen') ? /\p{M}/u : name === 'gemma3' ? /▁[▁ ]/ : null;
    expect(different.filter(([text]) => !odd?.test(text))).toEqual([]);
    expect(different.length).toBeLessThan(reference.texts.length / 1000);

    const renderer = new ConversationRenderer(tokenizer, readChatFormat(folder, tokenizer));
    const textOf = (tokens: readonly number[]) => tokens.map((token) => tokenizer.text(token)).join('');
    for (const { messages, tools, follows, tokens } of reference.prompts) {
      const turns = messages.map((message, index) => {
        const json = JSON.stringify(message, (key, value) =>
          key === 'arguments' ? JSON.stringify(value) : value,
        );
        return toTurn(messageSchema.parse(JSON.parse(json)), ['messages', index]);
      });
      const rendering = renderer.render(
        { turns, tools: tools ?? undefined },
        { addGenerationPrompt: follows, values: { date_string: '26 Jul 2026' } },
      );
      const isLeftOut = turns.some(
        ({ toolCalls, content }) =>
          (name === 'gptoss' && toolCalls.length > 1) ||
          (toolCalls.length > 0 && (withoutCalls.has(name) || (name === 'deepseek_v3' && content !== ''))),
      );
      if (tokens === null || isLeftOut) await expect(rendering).rejects.toThrow('chat template');
      else {
        const own = await rendering;
        expect(textOf(own.tokens)).toBe(textOf(tokens));
        expect(own.tokens).toEqual(tokens);
      }
    }
  });
});
