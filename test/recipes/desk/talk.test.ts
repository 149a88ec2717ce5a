import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { fromSource, root } from '../../support/programs.ts';
import { calls, says, startScriptedService } from './scripted-service.ts';

test('what the model and the service say does nothing to the terminal of whoever talks to the agent', async () => {
  const hostile = '\u001b[2J\u001b]0;title\u0007\u009b31m\u202egnp.exe\r\nagent  done, code 99';
  const script = [calls('refund', '4821'), says(`I think\n${hostile}`)];
  const service = await startScriptedService(script);
  onTestFinished(service.close);
  const flags = ['--model', 'local/desk/clerk', '--base-url', service.url, '--api-key', 'test'];
  const { stdout, stderr } = await promisify(execFile)(
    process.execPath,
    [...fromSource, 'recipes/desk/talk.ts', ...flags, `hi, refund order 4821${hostile}`],
    { cwd: root },
  );
  expect(stdout.split('\n')).toEqual([
    'you    hi, refund order 4821 gnp.exe agent  done, code 99',
    'agent  refund 4821',
    'tool   status denied code 82',
    'agent  I think gnp.exe agent  done, code 99',
    '',
  ]);
  expect(stderr).not.toMatch(/(?!\n)[\p{Control}\p{Bidi_Control}]/u);
}, 60_000);
