import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../support/files.ts';
import { group, start, trajectory } from '../harness.ts';

const canary = 'CANARY-7f3a';

/** Names that have an effect if they are not escaped. */
const classics = [
  ...[
    '.',
    '..',
    '../canary',
    '../../canary/canary.jsonl',
    '..\\canary',
    '/etc/passwd',
    '~',
    'C:\\canary',
    'CON',
  ],
  ...[
    '%2e%2e%2fcanary',
    '%252e%252e%252fcanary',
    '..%00',
    'a\u0000b',
    '..;/canary',
    '\u2025/canary',
    '\uff0e\uff0e/',
  ],
  ...[
    '\r\nX-Injected: yes',
    '\nX-Injected: yes',
    '%0d%0aX-Injected: yes',
    '\u010d\u010aX-Injected: yes',
    'a";b="c',
  ],
  ...[
    "'; DROP TABLE models; --",
    "' OR '1'='1",
    '%',
    '_',
    '"',
    '\\',
    '`',
    '$(id)',
    '\u0024{jndi:ldap://x}',
    '{{7*7}}',
  ],
  ...[
    '<script>alert(1)</script>',
    '\u001b[2J',
    '\u009b31m',
    '\u202egnp',
    '\ufeff',
    '\u2028',
    '\ud800',
    '\u{1f600}',
  ],
  ...['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'valueOf', '__defineGetter__'],
  ...[
    '',
    ' ',
    '0',
    '-1',
    'NaN',
    'null',
    'undefined',
    'true',
    ':step0',
    'a/b/c:step1',
    'sha256-',
    'x'.repeat(4000),
  ],
];
const names = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...classics) },
  { weight: 1, arbitrary: fc.string({ maxLength: 60, unit: 'binary' }) },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.constantFrom(...classics), fc.constantFrom(...classics)).map(([a, b]) => a + b),
  },
);

/** Forms in a path: encoded, or raw except for characters that would end the line or the path. */
const inPath = (name: string): string[] => [
  ...new Set([
    encodeURIComponent(name.toWellFormed()),
    name.toWellFormed().replace(/[^\u0021-\u007e]|[?#]/gu, (character) => encodeURIComponent(character)),
  ]),
];

/** Forms in a header. */
const inHeader = (name: string) => name.replace(/[^\u0020-\u007e\u00a0-\u00ff]/g, '').trim();

const id = '00000000-0000-4000-8000-000000000000';
const models = '/v1/preview/models';
const jobs = '/v1/preview/training-jobs';

type Request = [method: string, path: string, body?: unknown, headers?: Record<string, string>];

const pathRequests = (name: string): Request[] =>
  inPath(name).flatMap((part): Request[] => [
    ['GET', `${models}/${part}`],
    ['DELETE', `${models}/${part}`],
    ['GET', `${models}/${part}/checkpoints`],
    ['DELETE', `${models}/${part}/checkpoints`, { steps: [0] }],
    ['POST', `${models}/${part}/fork`, {}],
    ['GET', `${models}/${part}/checkpoints/${part}/download`],
    ['GET', `${models}/${id}/checkpoints/${part}/download`],
    ['POST', `${models}/${part}/log`, { split: 'train', trajectory_groups: [] }],
    ['GET', `${jobs}/${part}`],
    ['GET', `${jobs}/${part}/events`],
    ['POST', `${jobs}/${part}/cancel`],
    ['GET', `/${part}`],
    ['GET', `/v1/${part}/models`],
    ['GET', `${models}?after=${part}&order=asc`],
    ['GET', `${models}?${part}=1`],
  ]);

const bodyRequests = (name: string, own: string): Request[] => {
  const text = inHeader(name);
  const base = { project: 'desk', base_model: 'scripted-tiny' };
  const chat = (fields: object): Request => [
    'POST',
    '/v1/chat/completions',
    { messages: [{ role: 'user', content: 'hi' }], ...fields },
  ];
  const parameters = { type: 'object', properties: { [name]: { type: 'string' } } };
  const reply = trajectory(1, [65], { metrics: { [name]: 1 }, metadata: { [name]: name } });
  return [
    ['POST', models, { ...base, name }],
    ['POST', models, { ...base, entity: name }],
    ['POST', models, { ...base, project: name, name: 'other' }],
    ['POST', models, { ...base, base_model: name }],
    ['POST', models, { ...base, [name]: name }],
    ['POST', models, { ...base, name: 'agent', return_existing: true }, { 'idempotency-key': text }],
    ['GET', models, undefined, { 'x-request-id': text, 'compat-project': text, 'last-event-id': text }],
    ['POST', `${models}/${own}/fork`, { name, step: 0 }],
    ['POST', `${models}/${own}/log`, { split: name, trajectory_groups: [group(reply)] }],
    ['POST', `${models}/${own}/log`, { split: 'train', model_id: name, trajectory_groups: [] }],
    ['POST', jobs, { model_id: name, trajectory_groups: [group(reply, trajectory(0, [66]))] }],
    ['POST', jobs, { model_id: own, trajectory_groups: [], experimental_config: { [name]: 1 } }],
    ['POST', '/v1/preview/sft-training-jobs', { model_id: own, training_data_url: name }],
    ['POST', '/v1/preview/sft-training-jobs', { model_id: own, training_data_url: `upload:sha256-${name}` }],
    ['POST', '/v1/preview/sft-training-jobs', { model_id: own, training_data_url: `file:///${name}` }],
    chat({ model: name }),
    chat({ model: `local/desk/${name}` }),
    chat({ model: 'local/desk/agent', user: name, metadata: { [name]: name }, cache_salt: name || 'x' }),
    chat({ request_id: name }),
    chat({ [name]: name }),
    chat({ logit_bias: { [name]: 1 } }),
    chat({ messages: [{ role: 'user', content: name, name }] }),
    chat({ messages: [{ role: name, content: 'hi' }] }),
    chat({ tools: [{ type: 'function', function: { name, parameters } }] }),
    chat({ tools: [{ type: 'function', function: { name: 'look', parameters } }], tool_choice: 'auto' }),
    chat({ response_format: { type: 'json_schema', json_schema: { name, schema: parameters } } }),
  ];
};

/** A service whose data folder is next to files that must not be reached. */
async function withCanary() {
  const outside = await temporaryFolder();
  const dataFolder = join(outside, 'data');
  mkdirSync(join(outside, 'canary'));
  writeFileSync(join(outside, 'canary', 'canary.jsonl'), canary);
  const running = await start({ dataFolder });
  const model = await running.createModel();
  const { port } = new URL(running.service.url);
  /** Writes the raw request, because a client would normalise the path. */
  const ask = async ([method, path, body, headers = {}]: Request) => {
    const socket = connect(Number(port), '127.0.0.1');
    await once(socket, 'connect');
    const content = body === undefined ? '' : JSON.stringify(body);
    const lines = Object.entries({
      ...{ host: 'service', connection: 'close', authorization: `Bearer ${running.service.apiKey}` },
      ...{ 'content-length': String(Buffer.byteLength(content)), ...headers },
    }).map(([name, value]) => `${name}: ${value}\r\n`);
    socket.write(Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`, 'latin1'));
    socket.write(content);
    const chunks: Buffer[] = [];
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    socket.on('error', () => {});
    await once(socket, 'close');
    const answer = Buffer.concat(chunks).toString();
    const head = answer.slice(0, answer.indexOf('\r\n\r\n'));
    return { status: Number(answer.split(' ')[1]), head, body: answer.slice(head.length + 4) };
  };
  return { ...running, outside, model, ask };
}

/** Every path in a folder except those that the service may change, with the contents of the files. */
function snapshot(outside: string): string[] {
  return readdirSync(outside, { recursive: true, encoding: 'utf8' })
    .filter((path) => path !== 'data' && !path.startsWith('data/'))
    .map((path) =>
      statSync(join(outside, path)).isFile() ? readFileSync(join(outside, path), 'utf8') : path,
    );
}

const ownNames = () =>
  [Object, Array, Function, String].map(({ prototype }) => Object.getOwnPropertyNames(prototype));

describe('any name', () => {
  test('stays within its folder, and reaches no header, log, table or prototype', {
    tags: ['long'],
  }, async () => {
    const { outside, model, ask, log, dataFolder, call } = await withCanary();
    const [before, prototypes] = [snapshot(outside), ownNames()];
    const check = async (request: Request) => {
      const { status, head, body } = await ask(request);
      const requestText = JSON.stringify(request);
      expect([requestText, status], body).toEqual([
        requestText,
        expect.toSatisfy((code: number) => code >= 200 && code < 500),
      ]);
      expect(head.toLowerCase(), requestText).not.toMatch(/^x-injected/m);
      expect(body, requestText).not.toContain(canary);
      expect(body, requestText).not.toContain('root:');
    };
    await fc.assert(
      fc.asyncProperty(names, async (name) => {
        log.length = 0;
        await Promise.all([...pathRequests(name), ...bodyRequests(name, model.id)].map(check));
        for (const entry of log) {
          expect(Object.getPrototypeOf(entry)).toBe(Object.prototype);
          for (const value of Object.values(Object(entry)))
            expect(value === null || ['string', 'number', 'boolean'].includes(typeof value)).toBe(true);
        }
        expect(snapshot(outside)).toEqual(before);
        expect(ownNames()).toEqual(prototypes);
      }),
      { seed: 5, numRuns: classics.length + 12, examples: classics.map((name): [string] => [name]) },
    );
    // Nothing is missing, and new files in the data folder have names that the service chose.
    expect((await call('GET', `${models}/${model.id}`)).body).toEqual(model);
    for (const path of readdirSync(dataFolder, { recursive: true, encoding: 'utf8' }))
      expect(path).toMatch(/^[\w.%!~*'()-]+(\/[\w.%!~*'()-]+)*$/);
  });
});

describe('a split', () => {
  test('with any letters has its own file', async () => {
    const { ask, model, dataFolder } = await withCanary();
    const splits = [
      '你'.repeat(64),
      `${'你'.repeat(63)}好`,
      '\u{1f600}'.repeat(32),
      '..',
      '../train',
      'a/b',
      'a\u0000b',
    ];
    for (const split of splits) {
      const body = { split, trajectory_groups: [group(trajectory(1, [65]))] };
      const { status, body: answer } = await ask(['POST', `${models}/${model.id}/log`, body]);
      expect([split, status, answer]).toEqual([split, 200, expect.stringContaining('"num_groups":1')]);
    }
    const files = readdirSync(join(dataFolder, 'models', model.id, 'logs'));
    expect(files).toHaveLength(splits.length);
    for (const file of files) expect(Buffer.byteLength(file)).toBeLessThanOrEqual(255);
  });
});

test.each(['metrics', 'metadata'])('%s named __proto__ are refused instead of ignored', async (field) => {
  const { ask, model } = await withCanary();
  const reply = JSON.stringify(trajectory(1, [65], { [field]: { mine: 1 } })).replace(
    '"mine"',
    '"__proto__"',
  );
  const groups = [{ trajectories: [JSON.parse(reply), trajectory(0, [66])] }];
  const { status, body } = await ask(['POST', jobs, { model_id: model.id, trajectory_groups: groups }]);
  expect([status, body]).toEqual([422, expect.stringContaining('__proto__ is not allowed as a name')]);
  // Other inherited names of objects are ordinary names.
  const metrics = { constructor: 1, toString: 2, hasOwnProperty: 3, prototype: 4 };
  const named = [group(trajectory(1, [65], { metrics }), trajectory(0, [66], { metrics }))];
  expect(await ask(['POST', jobs, { model_id: model.id, trajectory_groups: named }])).toMatchObject({
    status: 200,
  });
});
