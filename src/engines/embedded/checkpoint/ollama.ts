import { access } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { folderFiles, JsonFields } from '../../../language/index.ts';
import { isObject } from '../../../util/json.ts';
import { EngineError } from '../../engine.ts';
import { badCheckpoint } from './bad-checkpoint.ts';

/** Where Ollama keeps models: of the user, and of its service on Linux. */
export const ollamaFolders = ({ OLLAMA_MODELS }: NodeJS.ProcessEnv): string[] => [
  ...(OLLAMA_MODELS ? [OLLAMA_MODELS] : []),
  join(homedir(), '.ollama', 'models'),
  '/usr/share/ollama/.ollama/models',
];

const layers = 'application/vnd.ollama.image.';

/**
 * The GGUF file of a model that Ollama has on this machine.
 * @param name As `ollama run` takes it: `name`, `name:tag`, `user/name:tag` or `host/user/name:tag`.
 * @param folders Where to look, in this order.
 * @throws EngineError or LanguageError (`checkpoint_not_found`, `checkpoint_unsupported`, `bad_checkpoint`)
 */
export async function ollamaFile(name: string, folders: readonly string[]): Promise<string> {
  const [, path = '', tag = 'latest'] = /^([\w.-]+(?:\/[\w.-]+){0,2})(?::([\w.-]+))?$/.exec(name) ?? [];
  const parts = path.split('/');
  if (path === '' || [...parts, tag].some((part) => /^\.*$/.test(part)))
    throw new EngineError(
      'bad_option',
      `\`checkpoints\` has ollama:${name}. Pass ollama:name or ollama:name:tag.`,
    );
  const before = ['registry.ollama.ai', 'library'].slice(0, 3 - parts.length);
  const manifest = join('manifests', ...before, ...parts, tag);
  for (const folder of folders) {
    const fields = JsonFields.find(folderFiles(folder), manifest);
    if (fields) return join(folder, 'blobs', await blobOf(fields, join(folder, 'blobs')));
  }
  throw new EngineError(
    'checkpoint_not_found',
    `Ollama has no ${path}:${tag} on this machine (looked in ${folders.join(', ')}). "ollama list" shows what it has, "ollama pull ${name}" fetches it.`,
  );
}

async function blobOf(manifest: JsonFields, blobs: string): Promise<string> {
  const found = manifest.get('layers');
  const all = (Array.isArray(found) ? found : []).filter(isObject);
  const extra = all.find(({ mediaType }) =>
    [`${layers}adapter`, `${layers}projector`].includes(String(mediaType)),
  );
  if (extra)
    throw new EngineError(
      'checkpoint_unsupported',
      `${manifest.path}: a layer is ${extra.mediaType}. martingale runs models without adapters and projectors.`,
    );
  const digest = all.find(({ mediaType }) => mediaType === `${layers}model`)?.digest;
  if (typeof digest !== 'string' || !/^sha256:[0-9a-f]{64}$/.test(digest))
    throw badCheckpoint(`${manifest.path} names no model. Pull it again.`);
  const name = digest.replace(':', '-');
  if (
    !(await access(join(blobs, name)).then(
      () => true,
      () => false,
    ))
  )
    throw badCheckpoint(
      `${join(blobs, name)} does not exist, but ${manifest.path} names it. Pull the model again.`,
    );
  return name;
}
