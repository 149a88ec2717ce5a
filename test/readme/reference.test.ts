import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Client, createClient } from '../../src/client/index.ts';
import {
  chatCompletionChunkSchema,
  chatCompletionRequestSchema,
  chatCompletionSchema,
  chatLimits,
  choiceSchema,
  logprobsSchema,
  refusedConfigFields,
  responseMessageSchema,
  rlConfigSchema,
  samplingSchema,
  sftConfigSchema,
  sftExampleSchema,
  structuredOutputsSchema,
  trajectorySchema,
  usageSchema,
} from '../../src/contract/index.ts';
import { createEmbeddedEngine } from '../../src/engines/embedded/index.ts';
import type { Engine } from '../../src/engines/engine.ts';
import { type RunningService, startService } from '../../src/service/index.ts';
import { sharedFolder } from '../support/files.ts';
import { root } from '../support/programs.ts';
import { textOf } from './documents.ts';
import { namesIn, type Row, tablesOf } from './tables.ts';

const logprobEntry = logprobsSchema.shape.content.unwrap().unwrap().element;
const streamOptions = chatCompletionRequestSchema.shape.stream_options.in.unwrap().unwrap();

/** Fields by the heading whose tables tell of them. */
const fieldsOf: Record<string, object> = {
  'Chat completion: request': chatCompletionRequestSchema.shape,
  structured_outputs: structuredOutputsSchema.shape,
  stream_options: streamOptions.shape,
  Completion: chatCompletionSchema.shape,
  Choice: choiceSchema.shape,
  Message: responseMessageSchema.shape,
  Logprobs: { ...logprobsSchema.shape, ...logprobEntry.shape },
  Usage: usageSchema.shape,
  Chunk: chatCompletionChunkSchema.shape,
  'Chunk choice': chatCompletionChunkSchema.shape.choices.element.shape,
  Delta: chatCompletionChunkSchema.shape.choices.element.shape.delta.shape,
  sampling: samplingSchema.shape,
  'Reinforcement learning': rlConfigSchema.shape,
  Trajectory: trajectorySchema.shape,
  'SFT config': sftConfigSchema.shape,
  'SFT data line': sftExampleSchema.shape,
};

/** Headings whose rows name a test each. */
const tested = [
  'Chat completion: request',
  'structured_outputs',
  'stream_options',
  'Reinforcement learning',
  'SFT config',
];

let tables: Map<string, Row[]>;

beforeAll(async () => {
  tables = await tablesOf('docs/reference.md');
});

const rowsOf = (heading: string): Row[] => tables.get(heading) ?? [];
const namesOf = (heading: string) => rowsOf(heading).flatMap(({ names }) => names);

describe('docs/reference.md', () => {
  it.each(Object.entries(fieldsOf))('has exactly the fields of %s, each once', (heading, shape) => {
    expect(namesOf(heading).sort()).toEqual(Object.keys(shape).sort());
  });

  it.each(tested)('names existing tests of %s that name the field', async (heading) => {
    for (const { names, files } of rowsOf(heading)) {
      expect([names, files]).toEqual([names, [expect.stringMatching(/^test\/.*\.test\.ts$/)]]);
      const text = await readFile(join(root, files[0] ?? ''), 'utf8');
      for (const name of names)
        expect([name, files[0], new RegExp(`(?<!\\w)${name}(?!\\w)`).test(text)]).toEqual([
          name,
          files[0],
          true,
        ]);
    }
  });

  it('has no empty cell', () => {
    for (const rows of Object.keys(fieldsOf).map(rowsOf))
      for (const { names, cells } of rows)
        expect([names, cells.filter((cell) => cell === '')]).toEqual([names, []]);
  });

  it('lists the refused options', async () => {
    const text = await textOf('docs/reference.md');
    const [, list = ''] = /^Refused by name .*?: (.*)$/m.exec(text) ?? [];
    expect(namesIn(list).sort()).toEqual([...refusedConfigFields].sort());
  });

  it('has the limits of a request', () => {
    const told = (name: string) =>
      rowsOf('Chat completion: request').find(({ names }) => names.includes(name));
    const limits: [string, number[]][] = [
      ['n', [chatLimits.choices]],
      ['top_logprobs', [chatLimits.topLogprobs]],
      ['prompt_logprobs', [chatLimits.promptLogprobs]],
      ['stop', [chatLimits.stopStrings, chatLimits.stopStringLength]],
      ['stop_token_ids', [chatLimits.stopTokens]],
      ['logit_bias', [chatLimits.biases]],
      ['bad_words', [chatLimits.badWords, chatLimits.badWordLength]],
      ['logits_processors', [chatLimits.processors]],
      ['engine_xargs', [chatLimits.engineArguments]],
    ];
    for (const [name, numbers] of limits)
      for (const number of numbers)
        expect(told(name)?.cells[0]).toMatch(
          new RegExp(`(?<![\\d,])${number.toLocaleString('en')}(?![\\d,])`),
        );
  });
});

/** By heading: the interfaces whose options its table lists. */
const optionsOf: Record<string, string[]> = {
  defineEnvironment: ['SharedOptions', 'RolloutEnvironmentOptions', 'LoopEnvironmentOptions', 'LoopPieces'],
  train: ['TrainSettings'],
  runGroups: ['RunGroupsOptions', 'RolloutSettings'],
  evaluate: ['EvaluateOptions'],
  sft: ['SftOptions'],
  Judges: ['JudgeOptions', 'RelativeJudgeOptions'],
  'Models, budgets and executors': [
    'OpenModelOptions',
    'ExternalModelOptions',
    'CallBudgetOptions',
    'InProcessOptions',
    'WorkerThreadsOptions',
    'DefaultProviderOptions',
  ],
  'Scenario sets': ['ScenarioSetOptions', 'MixedSet', 'SplitOptions', 'DifficultyOptions'],
  createClient: ['ClientOptions'],
  startService: ['StartServiceOptions'],
  createEmbeddedEngine: ['EmbeddedEngineOptions'],
};

/** The text of every file of the source, as one. */
async function sourceText(): Promise<string> {
  const folder = join(root, 'src');
  const files = (await readdir(folder, { recursive: true })).filter((file) => file.endsWith('.ts'));
  const texts = await Promise.all(files.map((file) => readFile(join(folder, file), 'utf8')));
  return texts.join('\n');
}

/** The members of a union of texts, with those of the unions that it names. */
function membersOf(type: string, source: string): string[] {
  const union = new RegExp(`\\btype ${type} =([^;]*);`).exec(source)?.[1] ?? '';
  return union.split('|').flatMap((part) => {
    const [, text] = /'(\w+)'/.exec(part) ?? [];
    if (text !== undefined) return text;
    const [, prefix = '', member] = /`(\w*)\$\{(\w+)\}`/.exec(part) ?? [];
    const other = member ?? /[A-Z]\w*/.exec(part)?.[0];
    return other === undefined ? [] : membersOf(other, source).map((name) => `${prefix}${name}`);
  });
}

describe('the options in docs/reference.md', () => {
  it.each(Object.entries(optionsOf))('has each option of %s', async (heading, interfaces) => {
    const source = await sourceText();
    const page = await textOf('docs/reference.md');
    const [, section = ''] = new RegExp(`\n### ${heading}\n([\\s\\S]*?)\n##`).exec(page) ?? [];
    for (const name of interfaces) {
      const body = new RegExp(`interface ${name}\\b[^{]*\\{\n([\\s\\S]*?)\n\\}`).exec(source)?.[1];
      const options = [...(body ?? '').matchAll(/^ {2}(\w+)\??: /gm)].map(([, option]) => option);
      expect([name, options.length]).toEqual([name, expect.toSatisfy((count: number) => count > 0)]);
      expect([name, options.filter((option) => !namesIn(section).includes(option ?? ''))]).toEqual([
        name,
        [],
      ]);
    }
  });

  it('has exactly the codes of each error class', async () => {
    const source = await sourceText();
    const classes = [...source.matchAll(/\btype (\w+Error)Code =/g)].map(([, name = '']) => name);
    expect(classes.length).toBeGreaterThanOrEqual(2);
    for (const name of classes)
      expect([name, namesOf(name).sort()]).toEqual([name, membersOf(`${name}Code`, source).sort()]);
  });
});

describe('the alarms in docs/guide.md', () => {
  it('are complete, with every cause of a missing signal', async () => {
    const source = await sourceText();
    const [, section = ''] = /\n## A flat curve\n([\s\S]*?)\n## /.exec(await textOf('docs/guide.md')) ?? [];
    for (const name of ['AlarmKind', 'NoSignalCause']) {
      const members = membersOf(name, source);
      expect(members.length).toBeGreaterThan(5);
      expect([name, members.filter((member) => !namesIn(section).includes(member))]).toEqual([name, []]);
    }
  });
});

describe('docs/reference.md, compared with the service', () => {
  const folder = sharedFolder();
  let engine: Engine;
  let service: RunningService;
  let client: Client;

  beforeAll(async () => {
    engine = await createEmbeddedEngine({ threads: 1 });
    service = await startService({ engine, dataFolder: folder });
    client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  });

  afterAll(async () => {
    await client?.close();
    await service?.close();
    await engine?.close();
  });

  const figuresOf = async (jobId: string): Promise<string[]> => {
    for await (const event of client.trainingJobs.follow(jobId)) {
      if (event.type === 'gradient_step') return Object.keys(event.data).sort();
      if (event.type === 'training_failed') throw new Error(event.data.error_message);
    }
    throw new Error('there was no gradient step');
  };
  const told = (kinds: string[]) =>
    rowsOf('gradient_step')
      .filter(({ cells }) => kinds.includes(cells.at(-1) ?? ''))
      .flatMap(({ names }) => names)
      .sort();

  it('has the base models, with their numbers', () => {
    const rows = rowsOf('Base models').map(({ names, cells }) => [names[0], ...cells.map(Number)]);
    expect(rows).toEqual(
      engine.baseModels.map(({ id, contextLength, defaults }) => [
        ...[id, contextLength, defaults.rlLearningRate, defaults.sftLearningRate, defaults.sftBatchSize],
      ]),
    );
  });

  it('has the figures of a gradient step, of both kinds of job', async () => {
    const { id } = await client.models.create({ project: 'p', base_model: 'martingale-tiny' });
    const question = { role: 'user' as const, content: 'hi' };
    const line = { messages: [question, { role: 'assistant', content: 'ho' }] };
    const { url } = await client.uploads.create(JSON.stringify(line));
    const supervised = await client.sftTrainingJobs.create({ model_id: id, training_data_url: url });
    expect(await figuresOf(supervised.id)).toEqual(told(['both']));
    const { choices } = await client.chat.completions.create({
      ...{ messages: [question], n: 2, max_tokens: 4, logprobs: true, return_token_ids: true },
    });
    const rewarded = choices.map((choice, reward) => ({
      messages_and_choices: [question, choice],
      reward,
    }));
    const reinforced = (config: { kl_penalty_coef?: number }) =>
      client.trainingJobs.create({
        ...{ model_id: id, trajectory_groups: [{ trajectories: rewarded }], experimental_config: config },
      });
    const plain = await reinforced({});
    expect(await figuresOf(plain.id)).toEqual(told(['both', 'RL']));
    const penalised = await reinforced({ kl_penalty_coef: 0.1 });
    expect(await figuresOf(penalised.id)).toEqual(told(['both', 'RL', 'RL with a KL penalty']));
  });
});
