import { NoObjectGeneratedError, type Output } from 'ai';

/**
 * An output specification that asks the model for the same and never throws: a reply that does not follow it is the
 * policy's own doing, and no failed rollout. `read` gives what it made of the reply.
 */
export function readLeniently<Parsed>(output: Output.Output<Parsed, unknown, unknown>): {
  spec: Output.Output<string, never, never>;
  read: () => Parsed | null;
} {
  let parsed: Parsed | null = null;
  const spec: Output.Output<string, never, never> = {
    name: output.name,
    responseFormat: output.responseFormat,
    parseCompleteOutput: async (reply, context) => {
      try {
        parsed = await output.parseCompleteOutput(reply, context);
      } catch (error) {
        if (!NoObjectGeneratedError.isInstance(error)) throw error;
      }
      return reply.text;
    },
    parsePartialOutput: async () => undefined,
    createElementStreamTransform: () => undefined,
  };
  return { spec, read: () => parsed };
}
