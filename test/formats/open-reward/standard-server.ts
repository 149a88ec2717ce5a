import type { IncomingMessage, ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { startServer } from '../../support/http-server.ts';

/** What happens to a request instead of an answer; `lose` answers a call's name, and then ends the connection. */
export type Fault = 'cut' | 'lose' | number;

interface Episode {
  index: number;
  guesses: number;
  finished: boolean;
}

/**
 * A server of the Open Reward Standard: one environment, "numbers", whose tasks ask for the number of the task. A guess
 * earns 0.25 when it is a digit and 1 when it is right, which ends the episode.
 */
export async function startStandardServer() {
  const episodes = new Map<string, Episode>();
  const results = new Map<string, string>();
  const received: string[] = [];
  const state = {
    url: '',
    episodes,
    received,
    /** Headers of the last request that creates an episode. */
    created: {} as IncomingMessage['headers'],
    fault: (_path: string, _count: number): Fault | undefined => undefined,
    hasMessages: true,
    /** Further messages of the conversation that an episode begins with. */
    moreMessages: [] as object[],
    hasTerminalTool: false,
    throws: false,
  };
  let count = 0;

  function call(id: string, { name, input }: { name: string; input: Record<string, unknown> }): string {
    const episode = episodes.get(id);
    if (!episode) throw new Error('no session');
    if (episode.finished)
      return JSON.stringify({ ok: false, error: 'it is over', reason: 'episode_finished' });
    const guess = name === 'submit' ? input.answer : input.n;
    if (name !== 'guess' && name !== 'submit')
      return JSON.stringify({ ok: false, error: `no tool ${name}`, reason: 'not_found' });
    if (typeof guess !== 'string')
      return JSON.stringify({ ok: false, error: 'n must be text', reason: 'input_validation' });
    episode.guesses++;
    const isRight = guess === String(episode.index);
    episode.finished = isRight || name === 'submit';
    const reward = isRight ? 1 : /^\d$/.test(guess) ? 0.25 : null;
    const blocks = [{ type: 'text', text: isRight ? 'right' : 'wrong' }];
    return JSON.stringify({ ok: true, output: { blocks, reward, finished: episode.finished } });
  }

  function stream(response: ServerResponse, name: string, result: string | null): void {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(`event: task_id\ndata: ${name}\n\n: ping\n\n`);
    if (result === null) return;
    const middle = Math.ceil(result.length / 2);
    response.write(`event: chunk\ndata: ${result.slice(0, middle)}\n\n`);
    response.end(`event: end\ndata: ${result.slice(middle)}\n\n`);
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? '';
    const body = request.headers['content-type'] ? ((await json(request)) as Record<string, unknown>) : {};
    received.push(`${request.method} ${path}`);
    const id = String(request.headers['x-session-id'] ?? '');
    const fault = state.fault(path, received.filter((one) => one.endsWith(path)).length);
    if (fault === 'cut') return void response.destroy();
    if (typeof fault === 'number') {
      response.writeHead(fault, { 'retry-after': '0.01' }).end('{"detail":"a fault of the test"}');
      return;
    }
    const send = (value: unknown) =>
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    const missing = () => response.writeHead(404).end('{"detail":"Active environment not found"}');
    if (path === '/list_environments') return void send(['numbers', 'other']);
    if (path === '/numbers/splits') return void send([{ name: 'train', type: 'train' }]);
    if (path === '/numbers/num_tasks') return void send({ num_tasks: 3 });
    if (path === '/create_session') return stream(response, `session-${++count}`, ' ');
    if (path === '/create') {
      state.created = request.headers;
      episodes.set(id, { index: Number(body.index), guesses: 0, finished: false });
      return void send({ sid: id });
    }
    if (path === '/delete' || path === '/delete_session' || path === '/ping') {
      if (path === '/delete') episodes.delete(id);
      return void send({ sid: id });
    }
    const episode = episodes.get(id);
    if (!episode) return void missing();
    const question = { type: 'text', text: `Which number is ${episode.index}?` };
    if (path === '/numbers/prompt') return void send([question]);
    if (path === '/numbers/messages')
      return state.hasMessages
        ? void send([
            { role: 'system', blocks: [{ type: 'text', text: 'Guess.' }] },
            { role: 'user', blocks: [question] },
            ...state.moreMessages,
          ])
        : void missing();
    if (path === '/numbers/task_tools') {
      const schema = { type: 'object', properties: { n: { type: 'string' } }, required: ['n'] };
      const terminal = state.hasTerminalTool ? { name: 'submit', arg: 'answer' } : null;
      const tools = state.hasTerminalTool
        ? []
        : [{ name: 'guess', description: 'a guess', input_schema: schema }];
      return void send({ tools, terminal_tool: terminal });
    }
    if (path === '/numbers/call') {
      const known = body.task_id === undefined ? undefined : String(body.task_id);
      if (state.throws) {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        return void response.end('event: task_id\ndata: t\n\nevent: error\ndata: ValueError: broken\n\n');
      }
      const name = known ?? `task-${++count}`;
      if (known === undefined)
        results.set(name, call(id, body as { name: string; input: Record<string, unknown> }));
      if (fault === 'lose') {
        stream(response, name, null);
        return void setTimeout(() => response.destroy(), 5);
      }
      return stream(response, name, results.get(name) ?? '');
    }
    response.writeHead(404).end('{"detail":"Not Found"}');
  }

  const listener = (request: IncomingMessage, response: ServerResponse) => void answer(request, response);
  const { url, port, close } = await startServer(listener);
  state.url = url;
  let again: Promise<unknown> | undefined;
  return Object.assign(state, {
    /** Refuses connections, until it listens again at the same port. */
    stopListening: close,
    listenAgain: () => (again ??= startServer(listener, { port })),
  });
}
