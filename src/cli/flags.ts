import { InvalidArgumentError, Option } from 'commander';

/** Parser of a flag with a whole number. */
export function wholeNumber(min: number, max = Number.MAX_SAFE_INTEGER) {
  return (text: string): number => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= min && value <= max) return value;
    const range = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`;
    throw new InvalidArgumentError(`It must be a whole number ${range}.`);
  };
}

/** Parser of a flag with a number that may have a fraction. */
export function anyNumber(min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY) {
  return (text: string): number => {
    const value = Number(text);
    if (text.trim() !== '' && Number.isFinite(value) && value >= min && value <= max) return value;
    const range =
      min === Number.NEGATIVE_INFINITY
        ? ''
        : max === Number.POSITIVE_INFINITY
          ? ` of at least ${min}`
          : ` from ${min} to ${max}`;
    throw new InvalidArgumentError(`It must be a number${range}.`);
  };
}

/** Parser of a flag with a number above 0. */
export function positiveNumber(text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value) && value > 0) return value;
  throw new InvalidArgumentError('It must be a number above 0.');
}

/** Parser of a flag with the URL of a service. */
export function serviceUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return text;
  const guess = `http://${text}`;
  const hasHost = !text.includes('://') && URL.canParse(guess);
  throw new InvalidArgumentError(
    hasHost
      ? `It must begin with http:// or https://, such as ${guess}.`
      : 'It must be a URL such as http://127.0.0.1:8000.',
  );
}

/** The `--data` flag, the same for every command. */
export const dataFlag = (): Option =>
  new Option('--data <folder>', 'folder of models, checkpoints, jobs and keys').default('.martingale');

export const threadsFlag = (): Option =>
  new Option(
    '--threads <number>',
    "threads of the embedded engine (default: the machine's cores, at most 4)",
  ).argParser(wholeNumber(1));

/** A repeatable flag: its values in order, none by default. */
export const repeatableFlag = (flags: string, description: string): Option =>
  new Option(flags, `${description}; repeatable`)
    .argParser((text: string, before: string[]): string[] => [...before, text])
    .default([], 'none');

/** Parser of a repeatable flag with `name=number`. */
export function namedNumbers<Name extends string>(names: readonly Name[]) {
  return (text: string, before: Partial<Record<Name, number>>): Partial<Record<Name, number>> => {
    const [key, number, ...rest] = text.split('=');
    const name = names.find((one) => one === key);
    if (name === undefined || number === undefined || rest.length > 0)
      throw new InvalidArgumentError(`It must be name=number, with a name of ${names.join(', ')}.`);
    return { ...before, [name]: wholeNumber(1)(number) };
  };
}

/** A word for a shell, in quotes if it needs them. */
export const shellWord = (text: string): string =>
  /^[\w./:@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
