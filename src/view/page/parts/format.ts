/** Numbers and times as the page writes them. */

const minus = (text: string): string => text.replace('-', '−');

/** A number with three to four digits that count: `0.5313`, `12.4`, `1,204`, `3.2e−7`. */
export function formatNumber(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  const size = Math.abs(value);
  if (value === 0) return '0';
  if (size < 0.0005) return minus(value.toExponential(1));
  if (size >= 1e6) return formatCount(value);
  if (Number.isInteger(value)) return minus(value.toLocaleString('en'));
  const digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4;
  return minus(Number(value.toFixed(digits)).toLocaleString('en', { maximumFractionDigits: digits }));
}

/** A number with its sign: `+0.5`, `−1`, `0`. */
export const formatSigned = (value: number | null | undefined): string =>
  `${value !== null && value !== undefined && value > 0 ? '+' : ''}${formatNumber(value)}`;

const counts = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

/** A count in few characters: `512`, `12.3K`, `4M`. */
export const formatCount = (value: number): string => minus(counts.format(value));

/** A share as a percentage: `12 %`, `0.4 %`. */
export function formatShare(value: number | null | undefined): string {
  if (value === null || value === undefined) return '–';
  const percent = value * 100;
  return `${Number(percent.toFixed(Math.abs(percent) < 10 && percent !== 0 ? 1 : 0))} %`;
}

/** Seconds in at most two units: `0.4 s`, `12 s`, `3 min 4 s`, `2 h 5 min`, `3 d 4 h`. */
export function formatSeconds(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return '–';
  if (seconds < 10) return `${Number(seconds.toFixed(seconds < 1 ? 2 : 1))} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return two(Math.floor(whole / 60), 'min', whole % 60, 's');
  if (whole < 86_400) return two(Math.floor(whole / 3600), 'h', Math.floor((whole % 3600) / 60), 'min');
  return two(Math.floor(whole / 86_400), 'd', Math.floor((whole % 86_400) / 3600), 'h');
}

const two = (large: number, unit: string, small: number, smallUnit: string): string =>
  small === 0 ? `${large} ${unit}` : `${large} ${unit} ${small} ${smallUnit}`;

/** How long ago a time was, in one unit: `just now`, `5 min ago`, `3 d ago`. */
export function formatAge(time: string | number, now: number = Date.now()): string {
  const seconds = (now - new Date(time).getTime()) / 1000;
  if (!Number.isFinite(seconds)) return '–';
  if (seconds < 45) return 'just now';
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86_400)} d ago`;
}

/** Money of a run, whose currency only its owner knows: `0.42`, `12.30`, `0.0004`. */
export function formatCost(cost: number | null | undefined): string {
  if (cost === null || cost === undefined) return '–';
  return cost !== 0 && cost < 0.01 ? formatNumber(cost) : cost.toFixed(2);
}

/** A count with its noun: `1 run`, `3 runs`. */
export const counted = (count: number, noun: string): string =>
  `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;

/** `12 groups`, or `3 of 12 groups` where only some are shown. */
export const shownOf = (shown: number, all: number, noun: string): string =>
  shown === all ? counted(all, noun) : `${shown} of ${counted(all, noun)}`;

/** An identifier of the records as words: `no_signal` becomes `no signal`, `sampledTokens` `sampled tokens`. */
export const inWords = (name: string): string =>
  name
    .replaceAll('_', ' ')
    .replace(/([a-z])([A-Z])/g, (_, a: string, b: string) => `${a} ${b.toLowerCase()}`);
