import { createClient } from 'martingale';
import { expect, it, onTestFinished, vi } from 'vitest';

it('a client warns once where only MARTINGALE_URL is set, which nothing reads', async () => {
  onTestFinished(() => void vi.unstubAllEnvs());
  const warnings: string[] = [];
  const listen = ({ message }: Error) => warnings.push(message);
  process.on('warning', listen);
  onTestFinished(() => void process.off('warning', listen));
  const open = async () => {
    await createClient({ baseUrl: 'http://127.0.0.1:1', apiKey: 'mine' }).close();
    // Warnings are emitted in a later tick.
    await new Promise(setImmediate);
  };
  vi.stubEnv('MARTINGALE_URL', 'http://127.0.0.1:2');
  vi.stubEnv('MARTINGALE_BASE_URL', 'http://127.0.0.1:1');
  await open();
  expect(warnings).toEqual([]);
  vi.stubEnv('MARTINGALE_BASE_URL', undefined);
  await open();
  await open();
  expect(warnings).toEqual([expect.stringContaining('set MARTINGALE_BASE_URL')]);
});
