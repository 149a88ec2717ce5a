import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { start } from '../harness.ts';
import { line, sft } from '../jobs/support.ts';

const uploads = '/v1/preview/uploads';
const large = (text: string) => `${text}\n${`${line('more')}\n`.repeat(20_000)}`;

test('a large upload is stored byte by byte, under the hash of its bytes', async () => {
  const { call } = await start();
  const body = large(line('first'));
  const sha256 = createHash('sha256').update(body).digest('hex');
  for (let time = 0; time < 2; time++)
    expect((await call('POST', uploads, body)).body).toMatchObject({
      sha256,
      bytes: Buffer.byteLength(body),
    });
});

test('line separators within JSON strings do not end a line', async () => {
  const { call, createModel, engine, follow } = await start();
  const model = await createModel();
  const upload = await call('POST', uploads, `\ufeff${line('one\u2028two\u0085three')}\r\n\r\n${line('b')}`);
  const job = await call('POST', sft, { model_id: model.id, training_data_url: upload.body.url });
  expect((await follow(job.body.id)).at(-1).type).toBe('training_ended');
  expect(engine.trained.flatMap(({ datums }) => datums)).toHaveLength(2);
});

test('an invalid line is reported with its number, and nothing is stored', async () => {
  const { call, service, dataFolder } = await start();
  const tooLong = `{"messages":"${'x'.repeat(4 * 1024 ** 2)}"}`;
  for (const [wrong, reason] of [
    ['{"messages":[]}', 'line 3'],
    [tooLong, 'line 3: exceeds the limit of 4194304 bytes per line'],
    ['{', 'line 3: JSON decode error'],
  ] as const)
    for (const before of [`${line('a')}\n\n`, `${line('a')}\n${' '.repeat(1024 ** 2)}\n`]) {
      const { status, body } = await call('POST', uploads, before + wrong);
      expect({ status, msg: body.detail[0].msg, loc: body.detail[0].loc.slice(0, 2) }).toEqual({
        ...{ status: 422, msg: expect.stringContaining(reason), loc: ['body', 'line 3'] },
      });
    }
  const response = await fetch(service.url + uploads, {
    ...{ method: 'POST', headers: { authorization: 'Bearer test-key' } },
    body: Buffer.from(`${line('a')}\n${line('\u00ff')}`, 'latin1'),
  });
  expect(JSON.stringify(await response.json())).toContain('line 2: is not UTF-8 text');
  for (const folder of ['uploads', 'incoming']) expect(readdirSync(join(dataFolder, folder))).toEqual([]);
});
