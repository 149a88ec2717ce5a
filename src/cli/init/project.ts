import { existsSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { basename, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { martingaleVersion } from '../../util/version.ts';

export const agents = ['ai-sdk', 'openai', 'agents', 'anthropic', 'langgraph', 'mastra', 'python'] as const;
export type AgentKind = (typeof agents)[number];

/** Packages of an agent, beside what every project has. Majors, so that an old npm installs what was tested. */
const packagesOf: Record<AgentKind, Record<string, string>> = {
  'ai-sdk': {},
  openai: { openai: '^7.55.0' },
  agents: { '@openai/agents': '^0.20.0' },
  anthropic: { '@anthropic-ai/sdk': '^1.14.0' },
  langgraph: {
    '@langchain/core': '^1.2.13',
    '@langchain/langgraph': '~1.4.8',
    '@langchain/openai': '^1.6.0',
  },
  mastra: { '@mastra/core': '^1.71.0' },
  python: {},
};

const templates = fileURLToPath(new URL('./templates/', import.meta.url));
const packageRoot = fileURLToPath(new URL('../../../', import.meta.url));

/** The files of a project by their path in it. */
export async function projectFiles(folder: string, agent: AgentKind): Promise<Map<string, string>> {
  const template = (name: string) => readFile(join(templates, name), 'utf8');
  return new Map([
    ['package.json', `${JSON.stringify(manifestOf(folder, agent), null, 2)}\n`],
    ['tsconfig.json', `${JSON.stringify(tsconfig, null, 2)}\n`],
    ['.gitignore', 'node_modules/\nruns/\n'],
    // The embedded engine needs no CUDA, which the package would fetch from elsewhere. A newer npm warns of this line.
    ...(readsAllowScripts() ? [] : [['.npmrc', 'onnxruntime-node-install=skip\n'] as const]),
    ['environment.ts', await template(agent === 'ai-sdk' ? 'environment.ts' : `environment.${agent}.ts`)],
    ['environment.test.ts', await template('environment.test.ts')],
    ['train.ts', await template('train.ts')],
    ...(agent === 'python' ? [['agent.py', await template('agent.py')] as const] : []),
  ]);
}

/** The skill for coding agents, as `docs/skill/SKILL.md` of this package has it. */
export const skillFile = (): Promise<string> =>
  readFile(join(packageRoot, 'docs', 'skill', 'SKILL.md'), 'utf8');

const tsconfig = {
  compilerOptions: {
    target: 'es2024',
    lib: ['es2024'],
    module: 'nodenext',
    strict: true,
    skipLibCheck: true,
    noEmit: true,
    allowImportingTsExtensions: true,
    types: ['node'],
  },
  include: ['*.ts'],
};

const manifestOf = (folder: string, agent: AgentKind) => ({
  name:
    basename(resolve(folder))
      .toLowerCase()
      .replaceAll(/[^a-z0-9._-]+/g, '-') || 'crossing',
  private: true,
  type: 'module',
  scripts: {
    start: 'tsx train.ts',
    test: 'node --import tsx --test environment.test.ts',
    preflight: 'martingale preflight environment.ts',
    view: 'martingale view',
    types: 'tsc',
  },
  dependencies: {
    '@ai-sdk/provider': '^4.0.38',
    '@opentelemetry/api': '^1.9.0',
    ai: '^7.0.140',
    martingale: ownAddress(folder),
    'onnxruntime-node': '1.30.0',
    ...packagesOf[agent],
    zod: '^4.6.7',
  },
  devDependencies: {
    '@types/node': '^24.0.0',
    ...(hasOldNode() ? { node: '^24.21.0' } : {}),
    tsx: '^4.23.0',
    typescript: '^7.0.2',
  },
  allowScripts: { esbuild: true, node: true, 'onnxruntime-node': false, protobufjs: false },
});

/** Whether npm itself runs on a Node that is too old for martingale: then the project brings its own. */
function hasOldNode(agent = process.env.npm_config_user_agent ?? ''): boolean {
  const [, major, minor] = /node\/v(\d+)\.(\d+)/.exec(agent) ?? [];
  return major !== undefined && (Number(major) < 22 || (Number(major) === 22 && Number(minor) < 19));
}

/**
 * Whether what installs the project runs no script that `allowScripts` of its package.json forbids: npm from 11.16. The
 * others run none that nobody has allowed.
 */
function readsAllowScripts(agent = process.env.npm_config_user_agent ?? 'npm/0.0'): boolean {
  const [, major, minor] = /^npm\/(\d+)\.(\d+)/.exec(agent) ?? [];
  return major === undefined || Number(major) > 11 || (Number(major) === 11 && Number(minor) >= 16);
}

/**
 * Where npm finds this package: where the project found it that it is installed in, such as a file of `npm pack`, else
 * its version. Where it is not installed: its folder.
 */
export function ownAddress(folder: string, own = packageRoot): string {
  const [project, installed] = own.split(`${sep}node_modules${sep}`);
  const fileAddress = (path: string) => `file:${relative(resolve(folder), path).split(sep).join('/')}`;
  if (project === undefined || installed === undefined) return fileAddress(resolve(own));
  const declared = declaredAddress(project);
  if (declared?.startsWith('file:')) return fileAddress(resolve(project, declared.slice('file:'.length)));
  // Such an address holds in its own workspace only.
  return declared && !/^(workspace|catalog|link):/.test(declared) ? declared : `^${martingaleVersion}`;
}

/** How the `package.json` of a project names this package; undefined if it does not, or cannot be read. */
function declaredAddress(project: string): string | undefined {
  try {
    const manifest = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8'));
    const address: unknown = { ...manifest.devDependencies, ...manifest.dependencies }.martingale;
    return typeof address === 'string' ? address : undefined;
  } catch {
    return undefined;
  }
}

/** Whether this package runs from its sources and has not been built, so that a project cannot import it yet. */
export const needsBuild = (): boolean =>
  !packageRoot.split(sep).includes('node_modules') && !existsSync(join(packageRoot, 'dist', 'index.js'));
