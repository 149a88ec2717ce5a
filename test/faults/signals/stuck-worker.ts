// Loaded with --import before a program: its threads ignore requests to end.
import { Worker } from 'node:worker_threads';

const { postMessage } = Worker.prototype;
Worker.prototype.postMessage = function (this: Worker, value: unknown, ...rest: []) {
  const isClosing = Array.isArray(value) && value.some(({ type }) => type === 'close');
  if (!isClosing) postMessage.call(this, value, ...rest);
};
Worker.prototype.terminate = () => new Promise(() => undefined);
