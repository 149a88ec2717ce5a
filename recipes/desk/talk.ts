import { createInterface } from 'node:readline/promises';
import { NoObjectGeneratedError } from 'ai';
import { Command, Option } from 'commander';
import { ModelHandle } from 'martingale';
import { describeFailure, printable, serviceUrl } from 'martingale/cli';
import { createClient } from 'martingale/client';
import { createDeskAgent, type Desk } from './agent.ts';

interface TalkOptions {
  model: string;
  baseUrl: string;
  apiKey: string;
}

/** Prints one line. Control characters in the model's text are made visible. */
const say = (speaker: string, text: string) =>
  process.stdout.write(`${speaker.padEnd(7)}${printable(text)}\n`);

/** A desk where every order exists. Odd orders are denied, and the code is the two middle digits. */
const anyOrder: Desk = (tool, order) => {
  const status = `status ${Number(order) % 2 === 0 ? 'ok' : 'denied'} code ${order.slice(1, 3)}`;
  say('agent', `${tool} ${order}`);
  say('tool', status);
  return status;
};

/** Serves one customer and prints the agent's call and answer. */
async function serve(message: string, model: ModelHandle): Promise<void> {
  try {
    const { finishReason, output } = await createDeskAgent(model.languageModel, anyOrder).generate({
      prompt: message,
    });
    say('agent', finishReason === 'stop' ? `${output.verdict}, code ${output.code}` : '(gave no answer)');
  } catch (error) {
    if (!NoObjectGeneratedError.isInstance(error)) throw error;
    say('agent', error.text ?? '(gave no answer)');
  }
}

/** Serves a customer for each line of the terminal or a file. */
async function serveAll(model: ModelHandle): Promise<void> {
  const atTerminal = process.stdin.isTTY === true;
  const lines = createInterface(
    atTerminal ? { input: process.stdin, output: process.stdout } : { input: process.stdin },
  );
  lines.setPrompt('you    ');
  if (atTerminal) lines.prompt();
  for await (const line of lines) {
    const message = line.trim();
    if (message !== '' && !atTerminal) say('you', message);
    if (message !== '') await serve(message, model);
    if (atTerminal) lines.prompt();
  }
}

const program = new Command('npx tsx recipes/desk/talk.ts')
  .description('Talk to the trained support agent as a customer.')
  .argument(
    '[message]',
    'message of the customer, such as "hi, please refund order 4821"; default: ask for it',
  )
  .requiredOption('--model <name>', 'entity/project/name: newest checkpoint, or a given one with :stepN')
  .option('--base-url <url>', 'URL of the service', serviceUrl, 'http://127.0.0.1:8000')
  .addOption(
    new Option('--api-key <key>', 'key of the service').env('MARTINGALE_API_KEY').makeOptionMandatory(),
  )
  .showHelpAfterError()
  .parse();

const { model: name, baseUrl, apiKey } = program.opts<TalkOptions>();
const client = createClient({ baseUrl, apiKey });
try {
  // Greedy sampling.
  const model = new ModelHandle({ client, name }).with({ temperature: 0 });
  const [message] = program.args;
  if (message === undefined) await serveAll(model);
  else {
    say('you', message);
    await serve(message, model);
  }
} catch (error) {
  process.stderr.write(`${describeFailure(error)}\n`);
  process.exitCode = 1;
} finally {
  await client.close();
}
