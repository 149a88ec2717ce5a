import { Argument, Command, type Option } from 'commander';

const shells = ['bash', 'zsh', 'fish'] as const;

const flagsOf = (command: Command): string[] =>
  command.options.flatMap(({ long }: Option) => long ?? []).concat('--help');

/** Names of the commands under a program, `keys create` for one below another, with their flags. */
function commandsOf(
  program: Command,
  path: readonly string[] = [],
): { path: string; names: string[]; flags: string[] }[] {
  return [
    {
      path: path.join(' '),
      names: program.commands.map((command) => command.name()),
      flags: flagsOf(program),
    },
    ...program.commands.flatMap((command) => commandsOf(command, [...path, command.name()])),
  ];
}

/**
 * A script that completes the commands and flags of the program in a shell; files where neither fits. Shells complete by
 * the first word, which is `npx` in `npx martingale`: so the script makes a function `martingale` of that, where there is
 * no such command.
 */
export function completionScript(program: Command, shell: (typeof shells)[number]): string {
  const all = commandsOf(program);
  if (shell === 'fish')
    return all
      .flatMap(({ path, names, flags }) => {
        const words = path === '' ? [] : path.split(' ');
        const condition =
          words.length === 0
            ? '__fish_use_subcommand'
            : words.map((word) => `__fish_seen_subcommand_from ${word}`).join('; and ');
        return [
          ...names.map((name) => `complete -c martingale -n '${condition}' -a ${name}`),
          ...flags.map((flag) => `complete -c martingale -n '${condition}' -l ${flag.replace(/^--/, '')}`),
        ];
      })
      .concat('if not type -q martingale; function martingale; npx --no martingale $argv; end; end')
      .join('\n')
      .concat('\n');
  const cases = all
    .map(({ path, names, flags }) => `    '${path}') words='${[...names, ...flags].join(' ')}' ;;`)
    .reverse();
  // biome-ignore-start lint/suspicious/noTemplateCurlyInString: they are the shell's.
  const bash = [
    '_martingale() {',
    '  local current="${COMP_WORDS[COMP_CWORD]}" path="" word words=""',
    '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
    '    case "$word" in -*) ;; *) path="${path:+$path }$word" ;; esac',
    '  done',
    '  while true; do',
    '    case "$path" in',
    ...cases,
    '    esac',
    '    [ -n "$words" ] || [ -z "$path" ] && break',
    '    case "$path" in *" "*) path="${path% *}" ;; *) path="" ;; esac',
    '  done',
    '  COMPREPLY=($(compgen -W "$words" -- "$current"))',
    '}',
    'complete -o default -F _martingale martingale',
    'command -v martingale > /dev/null || martingale() { npx --no martingale "$@"; }',
  ];
  // biome-ignore-end lint/suspicious/noTemplateCurlyInString: they are the shell's.
  return `${(shell === 'zsh' ? ['autoload -U +X bashcompinit && bashcompinit', ...bash] : bash).join('\n')}\n`;
}

export const completionCommand = (program: Command): Command =>
  new Command('completion')
    .description(
      'Print a script that completes commands and flags of `martingale` in a shell. Where `martingale` is not installed, it makes `martingale` call `npx martingale`.',
    )
    .addArgument(new Argument('<shell>', 'such as: source <(npx martingale completion bash)').choices(shells))
    .action((shell: (typeof shells)[number]) => void process.stdout.write(completionScript(program, shell)));
