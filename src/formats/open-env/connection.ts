import { Agent, buildConnector, type Dispatcher, WebSocket } from 'undici';

/** Largest frame of a server, in bytes. */
const maxFrameBytes = 16 * 1024 ** 2;

export interface Connection {
  socket: WebSocket;
  /** Cuts the connection below the socket. */
  cut: () => void;
  /** Why the socket did not open: the status of an answer, or an error. WebSocket itself tells no reason. */
  problem: () => unknown;
}

export function connect({ url, headers }: { url: string; headers: Record<string, string> }): Connection {
  const connector = buildConnector({});
  let cut = () => {};
  let problem: unknown;
  const agent = new Agent({
    webSocket: { maxPayloadSize: maxFrameBytes },
    connect: (options, callback) =>
      connector(options, (...made) => {
        cut = () => made[1]?.destroy();
        callback(...made);
      }),
  });
  const watch = (handler: Dispatcher.DispatchHandler): Dispatcher.DispatchHandler => ({
    onRequestStart: (...values) => handler.onRequestStart?.(...values),
    onRequestUpgrade: (...values) => handler.onRequestUpgrade?.(...values),
    onResponseStart: (...values) => {
      problem = values[1];
      handler.onResponseStart?.(...values);
    },
    onResponseData: (...values) => handler.onResponseData?.(...values),
    onResponseEnd: (...values) => handler.onResponseEnd?.(...values),
    onResponseError: (...values) => {
      problem ??= values[1];
      handler.onResponseError?.(...values);
    },
  });
  const dispatcher = agent.compose((dispatch) => (options, handler) => dispatch(options, watch(handler)));
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/ws`, { dispatcher, headers });
  return { socket, cut: () => cut(), problem: () => problem };
}
