import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import { ConversationRenderer } from '../../../src/language/chat/render.ts';
import { Constraints } from '../../../src/service/inference/constraints.ts';
import { openSqliteStore } from '../../../src/service/store/sqlite-store.ts';
import { temporaryFolder } from '../../support/files.ts';
import { baseModel, ScriptedEngine } from '../../support/scripted-engine.ts';
import { start } from '../harness.ts';

setFlagsFromString('--expose-gc');
const collect: () => void = runInNewContext('gc');

/** The increase of memory in megabytes. */
async function grownBy(work: () => Promise<void>): Promise<number> {
  collect();
  const before = process.memoryUsage().heapUsed;
  await work();
  collect();
  return (process.memoryUsage().heapUsed - before) / 2 ** 20;
}

const toolsOf = (name: string, length: number) => [
  {
    type: 'function' as const,
    function: { name, description: `${name} ${'d'.repeat(length)}`, parameters: { type: 'object' } },
  },
];

describe('fields that constrain a reply', () => {
  test.each<[string, object, string]>([
    [
      'tools',
      { tools: Array.from({ length: 20 }, (_, index) => toolsOf(`t${index}`, 60_000)).flat() },
      'body.tools',
    ],
    [
      'alternatives',
      {
        structured_outputs: {
          choice: Array.from({ length: 20 }, (_, index) => `${index}${'c'.repeat(60_000)}`),
        },
      },
      'body.structured_outputs.choice',
    ],
  ])('of more than a million characters are refused by name: %s', async (_what, fields, path) => {
    const { chat, engine } = await start();
    const { status, body } = await chat(fields);
    expect([status, body.detail[0].loc.join('.')]).toEqual([422, path]);
    expect(body.detail[0].msg).toMatch(/more than 1048576 characters of JSON/);
    expect(engine.requests).toEqual([]);
  });

  test('take no memory after they are checked, however many differ', async () => {
    const store = openSqliteStore(`${await temporaryFolder()}/store.sqlite`);
    const engine = new ScriptedEngine();
    const constraints = new Constraints(engine, store);
    const grown = await grownBy(async () => {
      for (let index = 0; index < 40; index++)
        await constraints.check(baseModel, { tools: toolsOf(`t${index}`, 900_000) });
    });
    // The store contains no constraint that was only checked.
    const checked = await constraints.check(baseModel, { tools: toolsOf('t0', 900_000) });
    expect(await store.constraint(checked?.hash ?? '', null)).toBeUndefined();
    await store.close();
    expect(grown).toBeLessThan(13);
  });

  test('take little memory as parts of prompts', async () => {
    class SilentEngine extends ScriptedEngine {
      override chatFormat() {
        return {
          ...super.chatFormat(),
          template:
            "{% for message in messages %}{{ '<|assistant|>' if message.role == 'assistant' else '<|user|>' }}{{ message.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
        };
      }
    }
    const engine = new SilentEngine();
    const renderer = new ConversationRenderer(engine.tokenizer(), engine.chatFormat());
    const turns = [{ role: 'user', content: 'hi', toolCalls: [] }];
    const grown = await grownBy(async () => {
      for (let index = 0; index < 40; index++)
        await renderer.render({ turns, tools: toolsOf(`t${index}`, 900_000) }, { addGenerationPrompt: true });
    });
    expect(grown).toBeLessThan(13);
  });
});
