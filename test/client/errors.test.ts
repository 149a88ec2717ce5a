import { inspect } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createClient, mayHaveActed, RequestError } from '../../src/client/index.ts';
import { MartingaleError } from '../../src/contract/index.ts';
import { startServer, unusedUrl } from '../support/http-server.ts';
import { type Answerer, cutInBody, eventStream, json, serve, silence, uuid } from './server.ts';

const rejection = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );

describe('an error response', () => {
  it.each([
    [400, 'request_refused'],
    [401, 'authentication_failed'],
    [403, 'permission_denied'],
    [404, 'not_found'],
    [409, 'conflict'],
    [413, 'payload_too_large'],
    [429, 'rate_limited'],
    [500, 'service_failed'],
    [501, 'service_failed'],
  ])('of status %d has its own code and names the call', async (status, code) => {
    const { connect } = await serve(json({ detail: 'no such luck' }, status, { 'x-request-id': 'r-7' }));
    const error = await rejection(connect({ retries: 0 }).models.get(uuid(1)));
    expect(error).toBeInstanceOf(RequestError);
    expect(MartingaleError.isInstance(error)).toBe(true);
    expect(error).toMatchObject({ code, status, requestId: 'r-7', method: 'GET', detail: 'no such luck' });
    expect(error).toMatchObject({ path: `/v1/preview/models/${uuid(1)}` });
    expect(String(error)).toContain(`GET /v1/preview/models/${uuid(1)}: ${status}: no such luck`);
    expect(String(error)).toContain('r-7');
    expect(String(error)).not.toContain('Bearer');
  });

  it.each([
    [400, { error: { message: 'too much', type: 'x', param: null, code: 'context_length_exceeded' } }],
    [422, { detail: 'too much', error: { message: 'too much', code: 'context_length_exceeded' } }],
    [400, { message: "This model's maximum context length is 8 tokens. However, you asked for 9." }],
    [400, { type: 'error', error: { type: 'invalid_request_error', message: 'prompt is too long: 9 > 8' } }],
    [
      400,
      { error: { message: "The input (9 tokens) is longer than the model's context length (8 tokens)." } },
    ],
  ])('of status %d for a prompt that is too long, %o, differs from other refusals', async (status, body) => {
    const { connect } = await serve(json(body, status));
    const error = await rejection(connect({ retries: 0 }).chat.completions.create({ messages: [] }));
    expect(error).toBeInstanceOf(RequestError);
    expect(error).toMatchObject({ code: 'context_length_exceeded', status });
  });

  it('ends each sentence with one full stop', async () => {
    const message = async (detail: string, headers = {}) => {
      const { connect } = await serve(json({ detail }, 404, headers));
      return String(await rejection(connect({ retries: 0 }).models.get(uuid(1))));
    };
    expect(await message('There is no such model.')).toContain('404: There is no such model. Check');
    expect(await message('There is no "model."')).toContain('404: There is no "model." Check');
    expect(await message('no such luck')).toContain('404: no such luck. Check');
    expect(await message('There is none.', { 'x-request-id': 'r-7' })).toContain(
      '404: There is none (request id r-7). Check',
    );
  });

  it('of a failed validation contains every issue', async () => {
    const detail = [
      { loc: ['body', 'trajectory_groups', 0], msg: 'is empty', type: 'too_small', input: [] },
      { loc: ['body', 'model_id'], msg: 'is no uuid', type: 'uuid', input: 'x' },
    ];
    const { client } = await serve(json({ detail }, 422));
    const error = await rejection(client.trainingJobs.create({ model_id: 'x', trajectory_groups: [] }));
    expect(error).toBeInstanceOf(RequestError);
    expect(error).toMatchObject({
      code: 'unprocessable',
      issues: [{ ...detail[0], loc: ['body', 'trajectory_groups', '0'] }, detail[1]],
    });
    expect(String(error)).toContain('body.trajectory_groups.0: is empty; body.model_id: is no uuid');
  });

  it('from the chat route is read if it has only `error`', async () => {
    const body = { error: { message: 'unknown model', type: 'not_found', param: null, code: null } };
    const { client } = await serve(json(body, 404));
    const error = await rejection(client.chat.completions.create({ messages: [] }));
    expect(error).toMatchObject({ code: 'not_found', detail: 'unknown model' });
  });

  it('is read if its `error` has no code', async () => {
    const { client } = await serve(json({ error: { message: 'unknown model' } }, 404));
    const error = await rejection(client.chat.completions.create({ messages: [] }));
    expect(error).toMatchObject({ code: 'not_found', detail: 'unknown model' });
  });

  it('that is a proxy’s page is a service error with the beginning of the page', async () => {
    const { connect, received } = await serve((response) => {
      response.writeHead(502, { 'content-type': 'text/html' });
      response.end(`<html>\n<title>Bad gateway</title>${' '.repeat(9000)}</html>`);
    });
    const error = await rejection(connect({ retries: 2 }).models.get(uuid(1)));
    expect(error).toBeInstanceOf(RequestError);
    expect(error).toMatchObject({
      code: 'service_failed',
      status: 502,
      detail: 'a page of HTML, "Bad gateway"',
    });
    expect(received).toHaveLength(3);
  });

  it('cannot control a terminal, whatever the service sends', async () => {
    const hostile = '\u001b[2J\u001b]0;title\u0007\u009b31m\u202egnp.exe\u2028 and\r\nmore';
    const bodies = [
      JSON.stringify({ detail: hostile }),
      hostile,
      JSON.stringify({ detail: [{ loc: ['body', hostile], msg: hostile, type: 'x', input: 1 }] }),
      JSON.stringify({ error: { message: hostile } }),
    ];
    const answerers = [500, 422, 200].flatMap((status) =>
      bodies.map(
        (body): Answerer =>
          (response) => {
            response.writeHead(status, { 'x-request-id': '\u009b2Jr-7' }).end(body);
          },
      ),
    );
    const { connect, received } = await serve(
      ...answerers,
      (response) => response.writeHead(302, { location: 'http://\u009b2J/' }).end(),
      eventStream([`data: ${hostile.replaceAll(/[\r\n]/g, '')}`]),
    );
    const client = connect({ retries: 0 });
    const errors: unknown[] = [];
    for (const _ of answerers) errors.push(await rejection(client.models.get(uuid(1))));
    errors.push(await rejection(client.health()));
    errors.push(await rejection(client.trainingJobs.follow(uuid(1)).next()));
    expect(received).toHaveLength(answerers.length + 2);
    for (const error of errors) {
      expect(MartingaleError.isInstance(error)).toBe(true);
      const shown = inspect(error, { depth: 8 }).replaceAll('\n', '');
      expect(shown).not.toMatch(/[\p{Control}\p{Bidi_Control}\u2028]/u);
      expect(String(error)).not.toContain('\n');
    }
    expect(errors[0]).toMatchObject({ detail: ' gnp.exe  and \nmore', requestId: 'r-7' });
  });

  it('has the beginning of a long reason in its message, and all of it in `detail`', async () => {
    const detail = `no ${'room '.repeat(10_000)}left`;
    const { client } = await serve(json({ detail }, 400));
    const error = await rejection(client.models.get(uuid(1)));
    expect(error).toMatchObject({ detail });
    expect(String(error)).toContain(`${detail.slice(0, 2000)}… (50007 characters, see detail). Repeating`);
    expect(String(error).length).toBeLessThan(2300);
  });

  it('contains the time to wait, and is not retried if that exceeds a minute', async () => {
    const { client, received } = await serve(json({ detail: 'slow down' }, 429, { 'retry-after': '3600' }));
    const error = await rejection(client.models.get(uuid(1)));
    expect(error).toMatchObject({ code: 'rate_limited', retryAfterMs: 3_600_000 });
    expect(received).toHaveLength(1);
  });
});

describe('a response of status 200', () => {
  it('that is not JSON is a bad response, with its beginning', async () => {
    const { client } = await serve((response) => response.end('<html>Welcome</html>'));
    const error = await rejection(client.models.get(uuid(1)));
    expect(error).toBeInstanceOf(RequestError);
    expect(error).toMatchObject({ code: 'bad_response', detail: 'not JSON: a page of HTML, "Welcome"' });
  });

  it('that violates the contract names the field', async () => {
    const { client } = await serve(json({ id: uuid(1), entity: 'e', project: 4 }));
    const error = await rejection(client.models.get(uuid(1)));
    expect(error).toMatchObject({ code: 'bad_response' });
    expect(String(error)).toContain('project');
  });

  it.each([
    {},
    { model: 'm', choices: [], usage: {} },
    { model: 'm', choices: [{ message: null, finish_reason: 'stop' }], usage: {} },
    { model: 'm', choices: [{ message: {}, finish_reason: 'stop' }] },
    [],
    null,
  ])('that is not a completion is a bad response: %j', async (body) => {
    const { client } = await serve(json(body));
    const error = await rejection(client.chat.completions.create({ messages: [] }));
    expect(error).toMatchObject({ code: 'bad_response' });
  });

  it('a redirect is refused rather than followed with the key', async () => {
    const { client } = await serve((response) => {
      response.writeHead(308, { location: 'http://elsewhere.invalid/' });
      response.end();
    });
    const error = await rejection(client.models.get(uuid(1)));
    expect(error).toMatchObject({ code: 'request_refused', status: 308 });
    expect(error).toHaveProperty('detail', 'redirects to http://elsewhere.invalid/');
  });
});

describe('a broken connection', () => {
  it('that never opened is reported as such', async () => {
    const options = { baseUrl: await unusedUrl(), apiKey: 'key', retries: 2, backoffMs: 0.1 };
    const client = createClient(options);
    const error = await rejection(client.models.get(uuid(1)));
    expect(error).toBeInstanceOf(RequestError);
    expect(error).toMatchObject({ code: 'connection_failed', connected: false, status: null });
    expect(String(error)).toContain('ECONNREFUSED');
    await client.close();
  });

  it('that broke within a body is reported as such', async () => {
    const { connect, received } = await serve(cutInBody);
    const error = await rejection(connect({ retries: 1, awayMs: 0 }).models.get(uuid(1)));
    expect(error).toBeInstanceOf(RequestError);
    expect(error).toMatchObject({ code: 'connection_failed', connected: true, status: 200 });
    expect(received).toHaveLength(2);
  });

  it('is closed by close(), for the calls in flight and for later ones', async () => {
    let arrived = () => {};
    const arrival = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    const { connect } = await serve(() => arrived());
    const client = connect();
    const inFlight = rejection(client.models.get(uuid(1)));
    await arrival;
    await client.close();
    expect(await inFlight).toMatchObject({ code: 'client_closed' });
    expect(await rejection(client.health())).toMatchObject({ code: 'client_closed' });
  });
});

describe('a silent service', () => {
  it('ends at the deadline', async () => {
    const { connect, received } = await serve(silence);
    const client = connect({ retries: 1 });
    const error = await rejection(client.models.get(uuid(1), { timeoutMs: 20 }));
    expect(error).toBeInstanceOf(RequestError);
    expect(error).toMatchObject({ code: 'timed_out', option: 'timeoutMs' });
    expect(received).toHaveLength(2);
  });

  it.each([
    ['readTimeoutMs', { readTimeoutMs: 20 }, {}],
    ['readTimeoutMs', { timeoutMs: 20 }, {}],
    ['timeoutMs', { readTimeoutMs: 1e6 }, { timeoutMs: 20 }],
  ])('names the option that raises the deadline: %s, with %j and %j', async (name, ofClient, ofCall) => {
    const { connect } = await serve(silence);
    const error = await rejection(connect({ retries: 0, ...ofClient }).models.get(uuid(1), ofCall));
    expect(error).toMatchObject({ code: 'timed_out', option: name });
    expect(String(error)).toContain(`no complete answer within 20 ms. Raise ${name} if`);
  });

  it('ends at the deadline within a body too, and sampling is not retried', async () => {
    const { client, received } = await serve((response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.write('{');
    });
    const error = await rejection(client.chat.completions.create({ messages: [] }, { timeoutMs: 500 }));
    expect(error).toMatchObject({ code: 'timed_out', status: 200 });
    expect(received).toHaveLength(1);
  });

  it('ends with the signal’s reason, and its connection closes', async () => {
    const controller = new AbortController();
    const reason = new Error('enough');
    const closed = Promise.withResolvers<void>();
    const { client } = await serve((response) => {
      response.on('close', () => closed.resolve());
      controller.abort(reason);
    });
    const call = client.chat.completions.create({ messages: [] }, { signal: controller.signal });
    expect(await rejection(call)).toBe(reason);
    await closed.promise;
    const again = client.chat.completions.create({ messages: [] }, { signal: controller.signal });
    expect(await rejection(again)).toBe(reason);
  });

  it('ends with the signal’s reason during the pause before a retry', async () => {
    const controller = new AbortController();
    const reason = new Error('enough');
    const { client } = await serve((response) => {
      json({ detail: 'later' }, 503, { 'retry-after': '50' })(response, {
        method: '',
        url: '',
        headers: {},
        body: '',
      });
      response.on('finish', () => setImmediate(() => controller.abort(reason)));
    });
    expect(await rejection(client.models.get(uuid(1), { signal: controller.signal }))).toBe(reason);
  });
});

describe('createClient', () => {
  it.each([
    [{ baseUrl: 'nowhere' }, /`baseUrl` is "nowhere"/],
    [{ baseUrl: 'ftp://host' }, /http or https/],
    [{ baseUrl: 'http://me:secret@host/v1' }, /has a user/],
    [{ inferenceBaseUrl: 'x' }, /`inferenceBaseUrl` is "x"/],
    [{ apiKey: '' }, /`apiKey` is empty/],
    [{ apiKey: 'a\r\nHost: b' }, /a header cannot carry/],
    [{ project: 'the team/project' }, /`project` is "the team\/project"/],
    [{ timeoutMs: 0 }, /`timeoutMs` is 0/],
    [{ readTimeoutMs: Number.NaN }, /`readTimeoutMs` is NaN/],
    [{ limits: { answerBytes: 0 } }, /`limits\.answerBytes` is 0\. Pass a whole number of bytes from 1/],
    [{ limits: { eventBytes: 2 ** 40 } }, /`limits\.eventBytes` is 1099511627776\./],
    [{ limits: { errorBytes: 1.5 } }, /`limits\.errorBytes` is 1\.5\./],
    [{ connectTimeoutMs: -1 }, /`connectTimeoutMs` is -1/],
    [{ retries: -1 }, /`retries` is -1/],
    [{ backoffMs: Number.NaN }, /`backoffMs` is NaN/],
  ])('refuses %j', (options, message) => {
    const given = { baseUrl: 'http://127.0.0.1', apiKey: 'key', ...options };
    expect(() => createClient(given)).toThrow(message);
    expect(() => createClient(given)).toThrow(expect.objectContaining({ code: 'invalid_client_option' }));
  });
});

it('https to a service that speaks http says which scheme to use', async () => {
  const { port, close } = await startServer();
  onTestFinished(close);
  const client = createClient({ baseUrl: `https://127.0.0.1:${port}`, apiKey: 'key', retries: 0 });
  onTestFinished(() => client.close());
  expect(String(await rejection(client.models.get(uuid(1))))).toContain(
    'Use http:// in `--base-url` or `baseUrl`',
  );
});

describe('an address that is not that of a service', () => {
  const page =
    (status: number, type = 'text/html; charset=utf-8'): Answerer =>
    (response) => {
      response.writeHead(status, { 'content-type': type });
      response.end('<!DOCTYPE html><html><head><title>My shop</title></head><body>many lines</body></html>');
    };

  it.each([
    ['200', page(200)],
    ['404', page(404)],
    ['405', page(405, 'text/plain')],
  ])('is named at once after a page with status %s, which is not printed', async (status, answer) => {
    const { client, received, url } = await serve(answer);
    const error = await rejection(client.models.list());
    expect(error).toMatchObject({ code: 'bad_response', status: Number(status) });
    expect(String(error)).toContain(`${status}: `);
    expect(String(error)).toContain(`What answers at ${url} is not a martingale service (text/`);
    expect(String(error)).toContain('`--base-url` on the command line, `baseUrl` in a program');
    expect(String(error)).toContain('"My shop"');
    expect(String(error)).not.toMatch(/<|many lines/);
    expect(received).toHaveLength(1);
  });

  it('is told from a service that a proxy hides for a moment', async () => {
    const { client, received } = await serve(json({ id: uuid(9) }), page(200), json({ id: uuid(9) }));
    await client.trainingJobs.get('a');
    expect(await client.trainingJobs.get('b')).toMatchObject({ id: uuid(9) });
    expect(received).toHaveLength(3);
  });

  it.each([400, 404, 405])('has not acted on a call that its page refuses with %d', async (status) => {
    const { connect } = await serve(page(status, 'text/plain'));
    const error = await rejection(connect().models.list());
    expect(error).toMatchObject({ code: 'bad_response' });
    expect(mayHaveActed(error)).toBe(false);
    const cut = await serve((response) => {
      response.writeHead(status, { 'content-length': '9' });
      response.write('{', () => response.destroy());
    });
    expect(mayHaveActed(await rejection(cut.connect({ retries: 0 }).models.list()))).toBe(false);
  });

  it.each([
    [404, 2, 'bad_response'],
    [408, 3, undefined],
    [429, 3, undefined],
  ])(
    'is asked again by a client that had an answer only if it says so: a page of %d',
    async (status, calls, code) => {
      const { client, received } = await serve(json({ id: uuid(9) }), page(status), json({ id: uuid(9) }));
      await client.trainingJobs.get('a');
      const result: unknown = await client.trainingJobs.get('b').catch((error: unknown) => error);
      expect(result).toMatchObject(code === undefined ? { id: uuid(9) } : { code });
      expect(received).toHaveLength(calls);
    },
  );

  it('at which nothing listens is named with what to do', async () => {
    const baseUrl = await unusedUrl();
    const client = createClient({ baseUrl, apiKey: 'key', retries: 0 });
    onTestFinished(() => client.close());
    const text = String(await rejection(client.models.list()));
    expect(text).toContain(`${baseUrl} cannot be reached: connect ECONNREFUSED`);
    expect(text).toContain('Start the service (`martingale serve`), or check the address: `--base-url`');
  });
});
