import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { Command, Option } from 'commander';
import { MartingaleError, printableLines } from '../../contract/index.ts';
import { shellWord } from '../flags.ts';
import { type AgentKind, agents, needsBuild, projectFiles, skillFile } from './project.ts';

interface InitOptions {
  agent: AgentKind;
  skill?: boolean;
  onlySkill?: boolean;
}

const skillPath = '.claude/skills/martingale/SKILL.md';

/** Writes the files of a project. Writes none if one of them exists. */
async function init(folder: string, { agent, skill, onlySkill }: InitOptions): Promise<void> {
  const files = onlySkill ? new Map<string, string>() : await projectFiles(folder, agent);
  if (skill || onlySkill) files.set(skillPath, await skillFile());
  const taken = [...files.keys()].filter((name) => existsSync(join(folder, name)));
  if (taken.length > 0)
    throw new MartingaleError(
      'folder_in_use',
      `${resolve(folder)} has ${taken.join(', ')} already: nothing was written. Name another folder, or move these away.`,
    );
  for (const [name, text] of files) {
    const path = join(folder, name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text, { flag: 'wx' });
  }
  const steps = onlySkill
    ? []
    : [
        '',
        'Next:',
        ...(needsBuild()
          ? ['  npm run build          # here, once: the project imports the built package']
          : []),
        ...(folder === '.' ? [] : [`  cd ${shellWord(folder)}`]),
        '  npm install',
        '  npm test               # the environment, without a model',
        '  npm run preflight      # a few rollouts: is there something to learn?',
        '  npm start              # trains the tiny model, in about a minute',
        '  npm run view           # the run in a browser',
      ];
  process.stdout.write(
    `${printableLines([`wrote ${[...files.keys()].join(', ')} in ${resolve(folder)}`, ...steps].join('\n'))}\n`,
  );
}

export const initCommand = (): Command =>
  new Command('init')
    .description(
      'Write a project that trains: an environment, a test without a model, and a training program.',
    )
    .argument('[folder]', 'where to write it', '.')
    .addOption(
      new Option('--agent <kind>', 'what the agent is written with').choices(agents).default('ai-sdk'),
    )
    .option('--skill', 'add the skill that tells coding agents how to use martingale')
    .option('--only-skill', 'add that skill alone, to a project that exists')
    .action(init);
