import { once } from 'node:events';
import { createServer } from 'node:http';
import { onTestFinished } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';

type Frame = { type: string; data?: Record<string, unknown> };

/** A server of OpenEnv, with as many of its addresses as a test needs. */
export interface EnvServer {
  url: string;
  /** Open sockets. */
  open: Set<WebSocket>;
  /** The resets that came, in order. */
  resets: Record<string, unknown>[];
  /** Most episodes at once. */
  capacity: number;
  /** Episodes that were refused for want of capacity. */
  refused: number;
  /** Answers to HTTP, by method and path. */
  http: Record<string, { status?: number; body: unknown }>;
  /** Answers a step: an object is sent, `undefined` sends nothing. */
  step: (action: Record<string, unknown>, socket: WebSocket) => object | undefined;
  /** Answers a reset. */
  reset: (data: Record<string, unknown>) => object;
  /** Says with what status the WebSocket is refused; undefined if it is not. */
  refusal: () => number | undefined;
  /** Takes the server down: its port refuses connections. */
  stop: () => Promise<void>;
  /** Brings it up again at the same address. */
  listen: () => Promise<void>;
}

export const observation = (fields: object, rest: { reward?: unknown; done?: boolean } = {}) => ({
  type: 'observation',
  data: { observation: fields, reward: rest.reward ?? null, done: rest.done ?? false },
});

export const failure = (code: string, message: string, more: object = {}) => ({
  type: 'error',
  data: { code, message, ...more },
});

export async function startEnvServer(): Promise<EnvServer> {
  const server: EnvServer = {
    url: '',
    open: new Set(),
    resets: [],
    capacity: Number.POSITIVE_INFINITY,
    refused: 0,
    http: {
      'GET /metadata': { body: { name: 'guess', description: 'Guess the number.' } },
      'GET /schema': {
        body: {
          action: {
            type: 'object',
            properties: { guess: { type: 'integer' } },
            required: ['guess'],
            additionalProperties: false,
          },
        },
      },
    },
    step: ({ guess }) => observation({ text: 'over' }, { reward: guess === 7, done: true }),
    reset: ({ seed }) => observation({ text: `round ${seed}` }),
    refusal: () => undefined,
    stop: async () => {
      for (const socket of sockets.clients) socket.terminate();
      listener.closeAllConnections();
      if (!listener.listening) return;
      listener.close();
      await once(listener, 'close');
    },
    listen: async () => {
      listener.listen(Number(new URL(server.url).port), '127.0.0.1');
      await once(listener, 'listening');
    },
  };
  const listener = createServer((request, response) => {
    const answer = server.http[`${request.method} ${request.url}`] ?? { status: 404, body: {} };
    response.writeHead(answer.status ?? 200, { 'content-type': 'application/json' });
    response.end(typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body));
  });
  const sockets = new WebSocketServer({
    server: listener,
    path: '/ws',
    verifyClient: (_, done) => {
      const status = server.refusal();
      done(status === undefined, status);
    },
  });
  sockets.on('connection', (socket) => {
    if (server.open.size >= server.capacity) {
      server.refused++;
      socket.send(JSON.stringify(failure('CAPACITY_REACHED', 'full', { max_sessions: server.capacity })));
      return socket.close();
    }
    server.open.add(socket);
    socket.on('close', () => server.open.delete(socket));
    socket.on('message', (text) => {
      const { type, data = {} }: Frame = JSON.parse(String(text));
      if (type === 'close') return socket.close();
      if (type === 'reset') server.resets.push(data);
      const answer = type === 'reset' ? server.reset(data) : server.step(data, socket);
      if (answer) socket.send(JSON.stringify(answer));
    });
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const address = listener.address();
  server.url = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`;
  onTestFinished(server.stop);
  return server;
}
