import { describe, expect, test } from 'vitest';
import { EngineError } from '../../../src/engines/engine.ts';
import { ScriptedEngine } from '../../support/scripted-engine.ts';
import { start } from '../harness.ts';
import { line, sft } from '../jobs/support.ts';

/** Throws the given error once, at the first constraint that it checks. */
class ComplainingEngine extends ScriptedEngine {
  problem: Error | null = null;
  checks = 0;

  override async checkConstraint(): Promise<void> {
    this.checks++;
    const { problem } = this;
    this.problem = null;
    if (problem) throw problem;
  }
}

const response_format = { type: 'json_object' };

describe('a fault of the engine while it checks a constraint', () => {
  test.each(['worker_died', 'engine_closed', 'out_of_memory', 'constraints_busy'])(
    'does not reject the request: %s is a 503, and the same request succeeds later',
    async (code) => {
      const engine = new ComplainingEngine();
      engine.problem = new EngineError(code, 'the thread is gone');
      const { chat } = await start({ engine });
      const { status, body } = await chat({ response_format });
      expect([status, body.error.code, engine.checks]).toEqual([503, code, 1]);
      expect((await chat({ response_format })).status).toBe(200);
    },
  );

  test('is not shown if its message describes the inside of the engine', async () => {
    const engine = new ComplainingEngine();
    engine.problem = new EngineError('engine_failed', '/secret/path is broken');
    const { chat } = await start({ engine });
    const { status, body } = await chat({ response_format });
    expect([status, JSON.stringify(body)]).toEqual([500, expect.not.stringContaining('secret')]);
  });

  test.each(['worker_died', 'constraints_busy'])('fails no job: after %s it runs again', async (code) => {
    const engine = new ComplainingEngine();
    engine.problem = new EngineError(code, 'the thread is gone');
    const { call, createModel, follow } = await start({ engine });
    const model = await createModel();
    const upload = await call('POST', '/v1/preview/uploads', line('{}', { response_format }));
    const fields = { model_id: model.id, training_data_url: upload.body.url };
    const job = await call('POST', sft, fields);
    expect((await follow(job.body.id)).at(-1)).toMatchObject({ type: 'training_ended' });
    expect(engine.checks).toBe(2);
  });
});

test('an invalid constraint is reported with its field after at most two checks', async () => {
  const engine = new ComplainingEngine();
  engine.problem = new EngineError('grammar_too_complex', 'it takes too long');
  const { chat } = await start({ engine });
  const tools = [{ type: 'function', function: { name: 'go' } }];
  const { status, body } = await chat({ response_format, tools });
  expect([status, body.detail[0].loc, engine.checks]).toEqual([422, ['body', 'tools'], 2]);
  expect(body.detail[0]).toMatchObject({ msg: 'it takes too long', type: 'unsupported_constraint' });
});
