/**
 * Refuses a Node that is too old, in one line. Each entry of the package imports this module first, so that it is
 * evaluated before everything that such a Node cannot run. All modules are linked before that: no module may import
 * by name what a built-in module of Node 18 does not export, and this one uses no new syntax.
 */
const remedy =
  'Install a newer one, or `npm install node@24` in the project: npx and npm scripts then run on that.';

const versions: Record<string, string | undefined> = process.versions;
const line = refusal(versions);
if (line !== undefined) refuse(line);

/** Why this runtime cannot run martingale; undefined if it can. Node 23 came before `node:sqlite`. */
function refusal({ node = '', bun, deno }: Record<string, string | undefined>): string | undefined {
  if (bun !== undefined)
    return `martingale does not run on Bun (this is ${bun}), whose undici is not the one from npm: run the program with Node 22.19, 24 or newer, or with Deno.`;
  const [major = 0, minor = 0] = node.split('.').map(Number);
  if (major >= 24 || (major === 22 && minor >= 19)) return undefined;
  const found = deno === undefined ? `Node ${node}` : `Deno ${deno}, which stands in for Node ${node}`;
  return `martingale needs Node 22.19, 24 or newer, and this is ${found}. ${deno === undefined ? remedy : 'Install a newer Deno.'}`;
}

/** Throws what `MartingaleError.isInstance` recognises. Where nobody catches it, its line alone is printed. */
function refuse(message: string): never {
  const error = Object.assign(new Error(message), {
    [Symbol.for('martingale.error')]: true,
    code: 'unsupported_node',
  });
  process.on('uncaughtException', (uncaught) => {
    if (uncaught !== error) throw uncaught;
    process.stderr.write(`error: ${message}\n`);
    process.exit(1);
  });
  throw error;
}

export {};
