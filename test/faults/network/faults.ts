import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises';
import { HttpMessage } from './http-message.ts';
import { type Exchange, type Fault, pass } from './proxy.ts';

/** The whole reply of the service. */
async function replyOf(exchange: Exchange): Promise<HttpMessage> {
  const reply = new HttpMessage();
  for await (const piece of exchange.ask()) reply.push(piece);
  return reply;
}

/** A reply in bytes. */
export function reply(status: string, headers: Record<string, string>, body: string | Buffer): Buffer {
  const lines = Object.entries({ 'content-length': String(Buffer.byteLength(body)), ...headers });
  const head = `HTTP/1.1 ${status}\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`;
  return Buffer.concat([Buffer.from(head, 'latin1'), Buffer.from(body)]);
}

/** The connection is reset, and the service has seen nothing. */
export const reset: Fault = async ({ client }) => {
  client.resetAndDestroy();
};

/** The service gets half of the request's body, or an incomplete head; then both connections are cut. */
export const cutRequest: Fault = async ({ request: { message }, ask, client }) => {
  const { bytes, bodyStart } = message;
  const end = bodyStart < bytes.length ? Math.floor((bodyStart + bytes.length) / 2) : bodyStart - 2;
  // An incomplete request is never answered, so ending the iteration cuts the connection.
  const asking = ask(bytes.subarray(0, end));
  const asked = asking.next();
  await nextTurn();
  client.destroy();
  await asking.return();
  await asked;
};

/** The service answers, but the answer is lost. */
export const loseReply: Fault = async (exchange) => {
  await replyOf(exchange);
  exchange.client.destroy();
};

/** As `loseReply`, but the client is cut off while the service is still working. */
export const loseReplyEarly: Fault = async (exchange) => {
  exchange.client.destroy();
  await replyOf(exchange);
};

/** The client gets half of the reply's body. */
export const cutReply: Fault = async (exchange) => {
  const { bytes, bodyStart } = await replyOf(exchange);
  await exchange.send(bytes.subarray(0, Math.floor((bodyStart + bytes.length) / 2)));
  exchange.client.destroy();
};

/** The client gets part of the reply's head. */
export const cutReplyHead: Fault = async (exchange) => {
  const { bytes, bodyStart } = await replyOf(exchange);
  await exchange.send(bytes.subarray(0, Math.floor(bodyStart / 2)));
  exchange.client.destroy();
};

/** Cuts the reply right after a given text. */
export const cutBehind =
  (text: string): Fault =>
  async (exchange) => {
    const came = new HttpMessage();
    for await (const piece of exchange.ask()) {
      const from = came.bytes.length;
      came.push(piece);
      const at = came.bytes.indexOf(text);
      if (at >= 0) {
        await exchange.send(came.bytes.subarray(from, Math.max(from, at + text.length)));
        break;
      }
      if (!(await exchange.send(piece))) return;
    }
    exchange.client.destroy();
  };

/** Delays the reply, unless the client disconnects first. */
export const delay =
  (milliseconds: number): Fault =>
  async (exchange) => {
    const { bytes } = await replyOf(exchange);
    const controller = new AbortController();
    const { signal } = controller;
    await Promise.race([wait(milliseconds, undefined, { signal }).catch(() => {}), exchange.gone]);
    controller.abort();
    await exchange.send(bytes);
  };

/** The request is swallowed and never answered. */
export const silence: Fault = ({ gone }) => gone;

/** The service answers, but the client gets nothing on an open connection. */
export const mute: Fault = async (exchange) => {
  await replyOf(exchange);
  await exchange.gone;
};

/** Bytes of a reply that are sent one at a time. Most replies are shorter. */
const drippedBytes = 2_000;

/** The reply is sent one byte at a time. */
export const drip: Fault = async ({ ask, send }) => {
  let dripped = 0;
  for await (const piece of ask()) {
    const end = Math.min(piece.length, Math.max(0, drippedBytes - dripped));
    dripped += end;
    for (const byte of piece.subarray(0, end)) {
      if (!(await send(Buffer.of(byte)))) return;
      await nextTurn();
    }
    await send(piece.subarray(end));
  }
};

/** Sends the reply's head, then a byte of its body now and then, without end. */
export const endlessDrip =
  (everyMs: number): Fault =>
  async ({ ask, send, client }) => {
    const asking = ask();
    await asking.next();
    await asking.return();
    await send(
      Buffer.from('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n{'),
    );
    while (!client.destroyed && (await send(Buffer.from(' ')))) await wait(everyMs);
  };

/** Holds the reply until the reply to another request has passed. */
export const outOfOrder: Fault = async (exchange) => {
  const other = exchange.proxy.nextReply();
  const { bytes } = await replyOf(exchange);
  await Promise.race([other, exchange.gone]);
  await exchange.send(bytes);
};

/** The service gets the request twice, one after the other. */
export const twice: Fault = async (exchange) => {
  await replyOf(exchange);
  await pass(exchange);
};

/** The service gets the request twice, at the same time. */
export const twiceAtOnce: Fault = async (exchange) => {
  const [{ bytes }] = await Promise.all([replyOf(exchange), replyOf(exchange)]);
  await exchange.send(bytes);
};

/** Sends the reply twice on the same connection. */
export const replyTwice: Fault = async (exchange) => {
  const { bytes } = await replyOf(exchange);
  await exchange.send(Buffer.concat([bytes, bytes]));
};

/** Sends another reply; the service never sees the request. */
export const instead =
  (bytes: Buffer): Fault =>
  async ({ send }) => {
    await send(bytes);
  };

/** Sends another reply after the service has handled the request. */
export const afterwards =
  (bytes: Buffer): Fault =>
  async (exchange) => {
    await replyOf(exchange);
    await exchange.send(bytes);
  };

/** Sends the service's status and headers with half of its body, as a complete reply. */
export const truncate: Fault = async (exchange) => {
  const answer = await replyOf(exchange);
  const half = answer.bytes.subarray(
    answer.bodyStart,
    Math.floor((answer.bodyStart + answer.bytes.length) / 2),
  );
  const status = answer.startLine.slice('HTTP/1.1 '.length);
  const type = answer.header('content-type') ?? 'application/json';
  await exchange.send(reply(status, { 'content-type': type }, half));
};
