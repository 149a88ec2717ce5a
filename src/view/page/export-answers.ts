import { answerFile } from '../answer-file.ts';

/** Whether this page is an export, whose answers are files. */
export const isExport = document.documentElement.dataset.answers === 'files';

/** The last files of an export that were read: their answers as JSON, by address. */
const files = new Map<string, Promise<ReadonlyMap<string, string>>>();
const maxFiles = 4;

/** An answer of an export. */
export async function readAnswer(path: string): Promise<unknown> {
  const address = path.split('/').map(decodeURIComponent).join('/');
  const name = answerFile(address);
  const file = files.get(name) ?? readFile(name);
  files.delete(name);
  files.set(name, file);
  for (const oldest of [...files.keys()].slice(0, -maxFiles)) files.delete(oldest);
  const answer = await file
    .then((answers) => answers.get(address))
    .catch((error) => {
      files.delete(name);
      throw error;
    });
  if (answer !== undefined) return JSON.parse(answer);
  throw new Error(
    'The export does not have this. Of a run with many rollouts it has the conversations of every n-th step: `--max-rollouts` changes how many.',
  );
}

async function readFile(name: string): Promise<ReadonlyMap<string, string>> {
  const response = await fetch(`api/${name.split('/').map(encodeURIComponent).join('/')}`);
  if (!response.ok)
    throw new Error(`${response.status} ${response.statusText}: the export lacks api/${name}`);
  const body = await response.blob();
  const start = new Uint8Array(await body.slice(0, 2).arrayBuffer());
  // Some servers unpack such files themselves.
  const isPacked = start[0] === 0x1f && start[1] === 0x8b;
  const unpacked = isPacked ? body.stream().pipeThrough(new DecompressionStream('gzip')) : body;
  const lines = (await new Response(unpacked).text()).trimEnd().split('\n');
  return new Map(
    lines.map((line) => {
      const tab = line.indexOf('\t');
      return [line.slice(0, tab), line.slice(tab + 1)];
    }),
  );
}
