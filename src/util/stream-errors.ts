import { EventEmitter } from 'node:events';

/** A standard stream of the process, or one like it. */
interface FailingStream {
  on: (event: 'error', listener: () => void) => unknown;
}

/**
 * Listens for errors of a stream. Every running thread has a listener of Node's on the standard streams, so that with ten
 * threads Node would warn of a leak.
 */
export function listenForErrors(stream: FailingStream, listener: () => void): void {
  if (!(stream instanceof EventEmitter)) return void stream.on('error', listener);
  const most = stream.getMaxListeners();
  stream.setMaxListeners(0);
  stream.on('error', listener);
  stream.setMaxListeners(most);
}
