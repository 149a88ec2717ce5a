import { TinkerServer } from '../engines/tinker/tinker-server.ts';

/** The tests' server of the Tinker API in its own process: `tinker-process.ts MILLISECONDS`. Sends its address. */
const delayMs = Number(process.argv[2]);
const { tinker } = await TinkerServer.listen({ vocabularySize: 709, delayMs });
// Requests are kept for tests to look at.
tinker.hold = () => {
  tinker.received.length = 0;
  return undefined;
};
process.send?.(tinker.url);
process.once('disconnect', () => process.exit());
