import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { describeFormat } from '../../../src/cli/checkpoint-flags.ts';
import { format, gptOssFiles, tokenizer, tokensOf } from '../../language/gpt-oss.ts';
import { sharedFolder, temporaryFolder } from '../../support/files.ts';
import { baseModel, sampleFrom, serverOf, tinkerEngines, untrained } from './support.ts';

const { open } = tinkerEngines(sharedFolder());

test('gpt-oss is served from its tokenizer and template, and each of its replies has its own end', async () => {
  const checkpoint = await temporaryFolder();
  for (const [name, content] of Object.entries(gptOssFiles)) await writeFile(join(checkpoint, name), content);
  const server = await serverOf();
  const engine = await open(server, { checkpoint });
  expect(engine.chatFormat(baseModel).channels).toEqual(format.channels);
  expect(describeFormat(engine.chatFormat(baseModel))).toBe(
    'its own template, tool calls and reasoning in channels',
  );
  const header = [format.channels!.channel, 'final', format.channels!.message];
  const call = tokenizer.special.get('<|call|>')!;
  const replies = [{ end: call }, {}].map((end) => ({ parts: [...header, 'Hi'], constraint: null, ...end }));
  expect(await engine.encodeReplies(baseModel, replies)).toEqual(
    ['<|call|>', '<|return|>'].map((end) => tokensOf(`<|channel|>final<|message|>Hi${end}`)),
  );
  await sampleFrom(engine, untrained, { stopTokens: [...format.otherEndTokens] });
  const { sampling_params: asked } = server.received.findLast(({ path }) => path.endsWith('asample'))!.body;
  expect(asked?.stop).toEqual(expect.arrayContaining([format.endToken, call]));
});
