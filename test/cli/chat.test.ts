import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type FakeService, startFakeService } from '../model/fake-service.ts';
import { command } from '../support/command.ts';
import { sharedFolder, temporaryFolder } from '../support/files.ts';
import { clerkPolicy, makeClerkRun } from '../view/make-clerk.ts';

const folder = sharedFolder();
const model = 'local/shop/clerk';
let service: FakeService;

beforeAll(async () => {
  service = await startFakeService({ policy: clerkPolicy });
  await makeClerkRun(service, join(folder, 'clerk'));
});
afterAll(() => service?.[Symbol.asyncDispose]());

/** Runs `martingale chat` with these lines as its input. */
async function chat(args: readonly string[], lines: readonly string[] = []) {
  const flags = ['--base-url', service.baseUrl, '--api-key', 'key'];
  const { stdout: output, stderr: errors } = await command(['chat', ...flags, ...args], {}, lines);
  return { output, errors };
}

it('a trained model is asked with the instructions, tools and format of its newest run; tool results are typed in', async () => {
  const { output, errors } = await chat(
    ['--model', `${model}:step1`, '--in', folder],
    ['Where is order 4204?', 'order 4204 left on Monday'],
  );
  expect(output).toBe('calls lookUp {"order":"4204"}\n{"answer":"order 4204 left on Monday"}\n');
  expect(errors).toContain(
    'Asked as in the run clerk, with its instructions, 1 tool (lookUp), its response format.',
  );
  expect(errors).toMatch(/For example: Where is order (4204|1885)\?/);
  const { messages, tool_choice: choice } = service.requests.at(-1) ?? {};
  expect(messages?.map(({ role }) => role)).toEqual(['system', 'user', 'assistant', 'tool']);
  expect(choice).toBeUndefined();
});

it('says before the first message that it finds no run of the model, and what to do', async () => {
  const other = await temporaryFolder();
  const { output, errors } = await chat(['hi', '--model', model, '--in', other]);
  expect(output).toBe('ct4204204204\n');
  expect(errors).toContain(
    `No run in ${other} trained ${model}, so the chat sends no instructions and no tools.`,
  );
  expect(errors).toContain('--in');
});

it('sends only what is typed with --plain, and own instructions in place of those of the run', async () => {
  const { errors } = await chat(['hi', '--model', model, '--in', folder, '--plain']);
  expect(errors).toBe('');
  expect(service.requests.at(-1)).not.toHaveProperty('tools');
  await chat(['hi', '--model', model, '--in', folder, '--system', 'Be brief.']);
  expect(service.requests.at(-1)?.messages[0]).toEqual({ role: 'system', content: 'Be brief.' });
});

it('a tool choice of the run is sent for the first answer of a conversation, and said', async () => {
  const other = await temporaryFolder();
  await makeClerkRun(service, join(other, 'clerk'), { toolChoice: 'required' });
  const begun = service.requests.length;
  const { output, errors } = await chat(
    ['--model', model, '--in', other],
    ['Where is order 4204?', 'order 4204 left on Monday', 'Where is order 1885?'],
  );
  expect(output).toMatch(/^calls lookUp .*4204.*\n.*left on Monday.*\ncalls lookUp .*1885.*\n$/);
  const choices = service.requests.slice(begun).map((request) => request.tool_choice);
  expect(choices).toEqual(['required', undefined, undefined]);
  expect(errors).toContain(
    '1 tool (lookUp), its response format, its tool choice "required" for the first answer.',
  );
});
