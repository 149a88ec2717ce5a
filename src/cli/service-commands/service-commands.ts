import { createInterface } from 'node:readline/promises';
import { Command, Option } from 'commander';
import type { Client } from '../../client/index.ts';
import {
  type Choice,
  jsonLine,
  MartingaleError,
  type Message,
  printable,
  type ToolCall,
} from '../../contract/index.ts';
import { alignColumns } from '../../util/text-table.ts';
import type { AskedAs } from '../../view/index.ts';
import { findModel, findTrainedModel, nameOf } from '../find-model.ts';
import { anyNumber, wholeNumber } from '../flags.ts';
import { chatOpening, type OpeningFlags } from './chat-opening.ts';
import { addServiceFlags, jsonFlag, print, type ServiceFlags, withClient } from './connect.ts';
import { jobsCommand } from './jobs.ts';
import { printPieces } from './print-pieces.ts';

const models = (flags: ServiceFlags) =>
  withClient(flags, async (client, signal) => {
    const rows = [['MODEL', 'BASE MODEL', 'ENGINE', 'ID']];
    for await (const model of client.models.list({ signal })) {
      if (flags.json) print(jsonLine(model));
      rows.push([nameOf(model), model.base_model, model.engine ?? '-', model.id].map(printable));
    }
    if (!flags.json)
      print(rows.length === 1 ? 'The service has no models.\n' : `${alignColumns(rows).join('\n')}\n`);
  });

interface CheckpointFlags extends ServiceFlags {
  delete?: number[];
  yes?: boolean;
}

const checkpoints = (name: string, flags: CheckpointFlags) =>
  withClient(flags, async (client, signal) => {
    const { model } = await findTrainedModel(client, name, signal);
    if (flags.delete)
      return deleteCheckpoints(client, { id: model.id, name: nameOf(model), ...flags, signal });
    const rows = [['STEP', 'NAME', 'LAST METRICS']];
    for await (const checkpoint of client.models.checkpoints.list(model.id, { order: 'desc', signal })) {
      const { step, metrics } = checkpoint;
      if (flags.json) print(jsonLine(checkpoint));
      const shown = Object.entries(metrics)
        .slice(0, 4)
        .map(([key, value]) => `${key} ${Number(value.toPrecision(4))}`);
      rows.push([String(step), `${nameOf(model)}:step${step}`, shown.join(', ')].map(printable));
    }
    if (flags.json) return;
    print(
      rows.length === 1
        ? `${printable(nameOf(model))} has no checkpoints.\n`
        : `${alignColumns(rows).join('\n')}\n`,
    );
  });

async function deleteCheckpoints(
  client: Client,
  {
    id,
    name,
    delete: steps = [],
    yes,
    signal,
  }: CheckpointFlags & { id: string; name: string; signal: AbortSignal },
): Promise<void> {
  const what = `step ${steps.join(', ')} of ${name}`;
  if (!yes) {
    if (!process.stdin.isTTY)
      throw new MartingaleError('bad_option', `deleting ${what} needs --yes where nobody can be asked.`);
    const lines = createInterface({ input: process.stdin, output: process.stderr });
    const answer = await lines.question(`Delete ${what}? This cannot be undone. [y/N] `, { signal });
    lines.close();
    if (!/^y(es)?$/i.test(answer.trim())) return print('nothing was deleted\n');
  }
  const { deleted_count: count, not_found_steps: missing } = await client.models.checkpoints.delete(
    id,
    { steps },
    { signal },
  );
  if (count === 0)
    throw new MartingaleError(
      'model_not_found',
      `nothing was deleted, because ${name} has no step ${missing.join(', ')}: \`martingale checkpoints ${name}\` lists its steps.`,
    );
  print(`deleted ${count}${missing.length > 0 ? `; there is no step ${missing.join(', ')}` : ''}\n`);
}

interface ChatFlags extends ServiceFlags, OpeningFlags {
  system?: string;
  maxTokens: number;
  temperature?: number;
}

/** Talks to a model: one message of the command line, or a conversation of the terminal's lines. */
const chat = (message: string | undefined, flags: ChatFlags) =>
  withClient(flags, async (client, signal) => {
    const { name: model } = await findModel(client, flags.model, signal);
    const opening = await chatOpening({ ...flags, model });
    const { sampledMessage } = await import('../../trajectory/index.ts');
    const messages: Message[] =
      flags.system === undefined
        ? [...(opening?.messages ?? [])]
        : [{ role: 'system', content: flags.system }];
    let isFirst = true;
    /** Calls of the last reply whose results are still to be typed. */
    let calls: ToolCall[] = [];
    const hear = async (content: string) => {
      const [call, ...others] = calls;
      calls = others;
      messages.push(call ? { role: 'tool', tool_call_id: call.id, content } : { role: 'user', content });
      if (calls.length > 0) return;
      const asked = opening ? (await import('../../view/index.ts')).askedAs(opening, { isFirst }) : {};
      const choice = await answer(client, { messages, asked, flags: { ...flags, model }, signal });
      isFirst = false;
      messages.push(sampledMessage(choice, { tokenIds: false }));
      calls = choice.message.tool_calls ?? [];
    };
    if (message !== undefined) return hear(message);
    const isTerminal = process.stdin.isTTY === true;
    const lines = createInterface(
      isTerminal ? { input: process.stdin, output: process.stdout } : { input: process.stdin },
    );
    signal.addEventListener('abort', () => lines.close(), { once: true });
    const prompt = () => {
      const [call] = calls;
      lines.setPrompt(call ? `${printable(call.function.name)} returns> ` : 'you> ');
      if (isTerminal) lines.prompt();
    };
    prompt();
    for await (const line of lines) {
      if (line.trim() !== '') await hear(line);
      prompt();
    }
  });

/** Prints the reply as it is sampled, then its calls. What the model writes cannot command the terminal. */
async function answer(
  client: Client,
  {
    messages,
    asked,
    flags: { model, maxTokens, temperature, json },
    signal,
  }: {
    messages: readonly Message[];
    asked: AskedAs;
    flags: ChatFlags;
    signal: AbortSignal;
  },
): Promise<Choice> {
  const body = {
    model,
    messages: [...messages],
    max_completion_tokens: maxTokens,
    ...(temperature === undefined ? {} : { temperature }),
    ...asked,
  };
  if (json) {
    const completion = await client.chat.completions.create(body, { signal });
    print(jsonLine(completion));
    const [choice] = completion.choices;
    return choice ?? { index: 0, message: { role: 'assistant', content: '' }, finish_reason: 'stop' };
  }
  const { StreamedChoice } = await import('../../model/index.ts');
  const reply = new StreamedChoice();
  const pieces = printPieces(print);
  for await (const chunk of await client.chat.completions.create({ ...body, stream: true }, { signal })) {
    reply.add(chunk);
    pieces.add(chunk.choices[0]?.delta.content ?? '');
  }
  pieces.end();
  const { choice } = reply.complete();
  if (choice.message.content) print('\n');
  for (const { function: called } of choice.message.tool_calls ?? [])
    print(`calls ${printable(`${called.name} ${called.arguments}`)}\n`);
  return choice;
}

/** The commands that look into a service. */
export const serviceCommands = (): Command[] => [
  addServiceFlags(
    new Command('models').description('List the models of a service.').addOption(jsonFlag()),
  ).action(models),
  addServiceFlags(
    new Command('checkpoints')
      .description('List the checkpoints of a model, or delete some.')
      .argument('<model>', 'project/model, or entity/project/model')
      .addOption(
        new Option('--delete <steps...>', 'delete these steps').argParser(
          (text: string, before: number[] = []) => [...before, wholeNumber(0)(text)],
        ),
      )
      .option('--yes', 'do not ask before deleting')
      .addOption(jsonFlag()),
  ).action(checkpoints),
  jobsCommand(),
  addServiceFlags(
    new Command('chat')
      .description('Talk to a model of a service.')
      .argument('[message]', 'one message; without it a conversation, a line each')
      .requiredOption(
        '--model <name>',
        'project/model or entity/project/model, either with :stepN, or a base model',
      )
      .option('--system <text>', 'instructions; they replace the ones of its run')
      .option('--in <folder>', 'folder with the runs that show how the model is asked', 'runs')
      .option('--plain', 'send no instructions, tools and response format of its run')
      .addOption(
        new Option('--max-tokens <count>', 'tokens of a reply').argParser(wholeNumber(1)).default(512),
      )
      .option('--temperature <value>', 'default: what the service uses', anyNumber(0, 2))
      .addOption(jsonFlag()),
  ).action(chat),
];
