import { execFile } from 'node:child_process';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { temporaryFolder } from '../support/files.ts';
import { pythonEnvironment } from './python-environment.ts';
import { apiKey, baseModel, service } from './support.ts';

const run = promisify(execFile);

const environment = await pythonEnvironment({
  what: 'the client that openapi-python-client generates from the OpenAPI document',
  requirements: [
    ...['openapi-python-client==0.29.1', 'annotated-doc==0.0.7', 'annotated-types==0.8.0', 'anyio==4.16.0'],
    ...['attrs==26.1.0', 'certifi==2026.10.18', 'h11==0.16.0', 'httpcore==1.0.9', 'httpx==0.28.1'],
    ...['idna==3.20', 'Jinja2==3.1.6', 'markdown-it-py==4.3.0', 'MarkupSafe==3.0.4', 'mdurl==0.1.2'],
    ...['pydantic==2.14.3', 'pydantic_core==2.50.4', 'Pygments==2.21.0', 'rich==15.0.0', 'ruff==0.17.6'],
    ...['ruamel.yaml==0.19.1', 'shellingham==1.5.4', 'typer==0.27.3', 'typing_extensions==4.16.0'],
    'typing-inspection==0.4.5',
  ],
});

/** A single conversation is both JSON lines and JSON. */
const config = { post_hooks: [], content_type_overrides: { 'application/jsonl': 'application/json' } };

describe.skipIf(environment === null)('a generated Python client', () => {
  const running = service();

  it('generates without a warning, names every type, chats, and follows a job', async () => {
    const python = environment?.python ?? '';
    const folder = await temporaryFolder();
    const headers = { authorization: `Bearer ${apiKey}` };
    const document = await (await fetch(`${running.url}/v1/openapi.json`, { headers })).text();
    await writeFile(join(folder, 'openapi.json'), document);
    await writeFile(join(folder, 'config.json'), JSON.stringify(config));
    const generated = join(folder, 'martingale_service');
    await run(python, [
      ...['-m', 'openapi_python_client', 'generate', '--fail-on-warning', '--meta', 'none'],
      ...['--path', join(folder, 'openapi.json'), '--config', join(folder, 'config.json')],
      ...['--output-path', generated],
    ]);
    const files = await readdir(join(generated, 'models'));
    expect(files.length).toBeGreaterThan(80);
    expect(files.filter((name) => /_type_\d|_item\b/.test(name))).toEqual([]);
    const program = join(import.meta.dirname, 'generated_client.py');
    const { stdout } = await run(python, [program, running.url, apiKey, baseModel, folder]);
    expect(JSON.parse(stdout)).toEqual({
      models: expect.arrayContaining([baseModel]),
      plain: expect.stringMatching(/^it is (lost|here)$/),
      finish_reason: 'stop',
      json: { order: '6662' },
      call: ['track', { order: '6662' }],
      second: 'soon',
      streamed: 'it is here, in a stream',
      refused: { status: 422, locations: [['body', 'messages', '1', 'content']], code: 'invalid_request' },
      unknown: [404, 'model_not_found'],
      retrieved: true,
      events: ['TrainingStartedEvent', 'GradientStepEvent', 'TrainingEndedEvent'],
      loss: expect.any(Number),
      steps: [0, 1],
    });
  }, 120_000);
});
