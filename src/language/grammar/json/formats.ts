const OCTET = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)';
const IPV4 = `(?:${OCTET}\\.){3}${OCTET}`;

/** A label of a host name: letters and digits, with single hyphens between them, 59 characters at most. */
const LABEL = '(?:[A-Za-z0-9]-?){0,29}[A-Za-z0-9]';
/** As the last label, so that the name is not an IPv4 address. */
const TOP_LABEL = '[A-Za-z](?:-?[A-Za-z0-9]){0,29}';
/** Four labels have 239 characters at most; RFC 1123 allows 253. */
const HOST = `(?:${LABEL}\\.){0,3}${TOP_LABEL}`;

/** A label of at most so many characters, with two hyphens at most. */
function shortLabel(most: number): string {
  const start = Math.floor(most / 2);
  const step = Math.floor((most - start) / 2) - 1;
  const run = (length: number) => `[A-Za-z0-9]{1,${length}}`;
  return step < 1 ? run(most) : `(?:${run(most)}|${run(start)}(?:-${run(step)}){1,2})`;
}

/** Up to two labels, each with the dot after it, of at most so many characters together. */
function shortLabels(most: number): [first: string, second: string] {
  const first = within((most - 2) / 3, 59);
  return [`${shortLabel(first)}\\.`, `${shortLabel(within(most - 2 - first, 59))}\\.`];
}

/** A host name of at most so many characters: 13 or more. */
function shortHost(most: number): string {
  if (most >= 239) return HOST;
  const [first, second] = shortLabels(most - 10);
  return `(?:${first})?(?:${second})?[A-Za-z]{1,10}`;
}

const LEAP_YEAR = '(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)';
const DATE = `(?:\\d{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)|${LEAP_YEAR}-02-29)`;
const TIME = '(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)';

const EMAIL_CHARACTER = '[A-Za-z0-9_+-]';
/** At most 249 characters; RFC 5321 allows 254. */
const EMAIL = `${EMAIL_CHARACTER}{1,20}(?:\\.${EMAIL_CHARACTER}{1,20}){0,2}@(?:(?:[A-Za-z0-9]-?){0,26}[A-Za-z0-9]\\.){1,3}[A-Za-z]{2,24}`;

/** An address of at most so many characters: 24 or more. */
function shortEmail(most: number): string {
  if (most >= 249) return EMAIL;
  const step = within(most / 5 - 1, 20);
  const [first, second] = shortLabels(most - 2 * step - 12);
  return `${EMAIL_CHARACTER}{1,${step}}(?:\\.${EMAIL_CHARACTER}{1,${step}})?@(?:${first})?${second}[A-Za-z]{2,10}`;
}

const HEX = '[0-9A-Fa-f]{1,4}';
/** Eight groups, or fewer with `::` among them. */
const IPV6 = [
  `(?:${HEX}:){7}${HEX}`,
  `(?:${HEX}:){1,7}:`,
  ...[1, 2, 3, 4, 5, 6].map((after) => `(?:${HEX}:){1,${7 - after}}(?::${HEX}){${after}}`),
  `:(?:(?::${HEX}){1,7}|:)`,
].join('|');
/** An IPv4 address at the end takes the place of two groups. */
const MIXED_IPV6 = [
  IPV6,
  `(?:(?:${HEX}:){6}|:(?::${HEX}){0,5}:)${IPV4}`,
  ...[0, 1, 2, 3, 4].map((after) => `(?:${HEX}:){1,${5 - after}}(?::${HEX}){${after}}:${IPV4}`),
].join('|');

/** A character of a path (`pchar` of RFC 3986), and one of a query or fragment. */
const PATH_CHARACTER = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";
const QUERY_CHARACTER = "(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})";
const FIRST_STEP = "(?:[A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})+";
const PORT = '(?::[1-9]\\d{0,3})?';
const PATH = `(?:/${PATH_CHARACTER}*)*`;
const QUERY = `(?:\\?${QUERY_CHARACTER}*)?(?:#${QUERY_CHARACTER}*)?`;
/** Without the lengths of its labels, which RFC 3986 does not limit: counting them together with others takes long. */
const URI_HOST = `(?:(?:[A-Za-z0-9](?:-?[A-Za-z0-9])*\\.)*[A-Za-z](?:-?[A-Za-z0-9])*|${IPV4})`;
const URI = `(?:(?:https?|wss?|ftp)://${URI_HOST}${PORT}${PATH}|file://${URI_HOST}?/${PATH_CHARACTER}+${PATH})${QUERY}`;

/** The rest after the host is shared by path, query and fragment. Short ones have no percent-encoding: it takes three. */
function shortUri(most: number): string {
  const isEncoded = most >= 1000;
  const host = Math.min(239, Math.floor(most * 0.4));
  const rest = (most - 16 - host) / (isEncoded ? 3 : 1);
  const [path, fragment] = [within(rest * 0.45, 500), within(rest * 0.1, 500)];
  const characters = (more: string) =>
    `(?:[A-Za-z0-9._~!$&'()*+,;=:@${more}/-]${isEncoded ? '|%[0-9A-Fa-f]{2}' : ''})`;
  return `(?:https?|wss?|ftp)://(?:${shortHost(host)}|${IPV4})${PORT}(?:/${characters('')}{0,${path}})?(?:\\?${characters('?')}{0,${path}})?(?:#${characters('?')}{0,${fragment}})?`;
}

const RELATIVE = `(?:(?:/${PATH_CHARACTER}+|${FIRST_STEP})${PATH})?`;

const POINTER = '(?:/(?:[^~/]|~[01])*)*';
const DURATION_TIME = 'T(?:\\d{1,9}H(?:\\d{1,9}M(?:\\d{1,9}S)?)?|\\d{1,9}M(?:\\d{1,9}S)?|\\d{1,9}S)';
const DURATION_DATE = '(?:\\d{1,9}Y(?:\\d{1,9}M(?:\\d{1,9}D)?)?|\\d{1,9}M(?:\\d{1,9}D)?|\\d{1,9}D)';
const DURATION = `P(?:${DURATION_DATE}(?:${DURATION_TIME})?|${DURATION_TIME}|\\d{1,9}W)`;

/** Counts of a repetition: one of up to three digits, or two of which the first, of up to two digits, is not the greater. */
const COUNTS = [
  '\\d{1,3},?',
  ...[...'0123456789'].map((low) => `${low},(?:[${low}-9]|[1-9]\\d{1,2})`),
  ...[...'123456789'].map(
    (tens) =>
      `${tens}(?:\\d,[1-9]\\d\\d|${[...'0123456789'].map((low) => `${low},${tens}[${low}-9]`).join('|')})`,
  ),
  ...[...'12345678'].map((tens) => `${tens}\\d,[${Number(tens) + 1}-9]\\d`),
].join('|');
const QUANTIFIER = `(?:(?:[*+?]|\\{(?:${COUNTS})\\})\\??)?`;
/** Parts of regular expressions: characters, escapes, classes and groups without groups in them. */
const REGEX_ATOM =
  '(?:[A-Za-z0-9 _,:;=!@#%&"\'<>~`./-]|\\\\[dDwWsStnr.*+?()\\[\\]{}|^$/\\\\]|\\[\\^?(?:[A-Za-z0-9 _.]|a-z|A-Z|0-9|\\\\[dDwWsS.\\[\\]\\\\-])+\\])';
const REGEX_GROUP = `\\((?:\\?:)?(?:${REGEX_ATOM}${QUANTIFIER}|\\|)*\\)`;
const REGEX = `\\^?(?:(?:${REGEX_ATOM}|${REGEX_GROUP})${QUANTIFIER})*\\$?`;

const whole = (pattern: string) => `^(?:${pattern})$`;

/** The whole part of a number, from 1 to `most`. */
function within(value: number, most: number): number {
  return Math.min(most, Math.max(1, Math.floor(value)));
}

/** Formats of strings. Every text that matches the pattern has the format; some texts of the format do not match. */
export const PATTERN_OF_FORMAT: ReadonlyMap<string, string> = new Map([
  ['date', whole(DATE)],
  ['time', whole(TIME)],
  ['date-time', whole(`${DATE}T${TIME}`)],
  ['duration', whole(DURATION)],
  ['uuid', whole('[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}')],
  ['email', whole(EMAIL)],
  ['idn-email', whole(EMAIL)],
  ['hostname', whole(HOST)],
  ['idn-hostname', whole(HOST)],
  ['ipv4', whole(IPV4)],
  ['ipv6', whole(MIXED_IPV6)],
  ['uri', whole(URI)],
  ['iri', whole(URI)],
  ['url', whole(URI)],
  ['uri-reference', whole(`${URI}|${RELATIVE}${QUERY}`)],
  ['iri-reference', whole(`${URI}|${RELATIVE}${QUERY}`)],
  ['uri-template', whole(`(?:${URI}|${RELATIVE})(?:/\\{[A-Za-z0-9_]+\\}${PATH})*`)],
  ['json-pointer', whole(POINTER)],
  ['relative-json-pointer', whole(`(?:0|[1-9]\\d{0,8})(?:#|${POINTER})`)],
  ['regex', whole(REGEX)],
]);

/** Patterns of formats for texts of at most so many characters, from the smallest number on that leaves useful ones. */
const SHORT_PATTERN: ReadonlyMap<string, readonly [least: number, pattern: (most: number) => string]> =
  new Map([
    ['email', [40, shortEmail]],
    ['idn-email', [40, shortEmail]],
    ['hostname', [24, shortHost]],
    ['idn-hostname', [24, shortHost]],
    ['ipv6', [2, (most) => (most < 45 ? IPV6 : MIXED_IPV6)]],
    ['uri', [64, shortUri]],
    ['iri', [64, shortUri]],
    ['url', [64, shortUri]],
  ]);

/** The pattern of a format; undefined if it has none. With `most` it is one of shorter texts where there is one. */
export function patternOfFormat(format: string, most: number | null): string | undefined {
  const [least, pattern] = SHORT_PATTERN.get(format) ?? [];
  if (most === null || least === undefined || most < least) return PATTERN_OF_FORMAT.get(format);
  return pattern && whole(pattern(most));
}

/** Formats of whole numbers, as OpenAPI's registry and schema generators of Rust, Go and .NET have them. */
export const RANGE_OF_FORMAT: ReadonlyMap<string, readonly [minimum: number, maximum: number]> = new Map([
  ['int8', [-(2 ** 7), 2 ** 7 - 1]],
  ['int16', [-(2 ** 15), 2 ** 15 - 1]],
  ['int32', [-(2 ** 31), 2 ** 31 - 1]],
  ['int64', [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY]],
  ['int', [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY]],
  ['uint8', [0, 2 ** 8 - 1]],
  ['uint16', [0, 2 ** 16 - 1]],
  ['uint32', [0, 2 ** 32 - 1]],
  ['uint64', [0, Number.POSITIVE_INFINITY]],
  ['uint', [0, Number.POSITIVE_INFINITY]],
]);

/** Formats of numbers that every JSON number has. */
const FORMATS_OF_ALL_NUMBERS = new Set(['float', 'double']);

/** Whether a format is enforced, or holds for every value. */
export const hasMeaning = (format: string): boolean =>
  PATTERN_OF_FORMAT.has(format) || RANGE_OF_FORMAT.has(format) || FORMATS_OF_ALL_NUMBERS.has(format);

/**
 * Patterns of zod's formats that have look-ahead or match more than is readable, each with the format whose texts it
 * matches. Written out: the engine's threads start without zod.
 */
export const FORMAT_OF_PATTERN: ReadonlyMap<string, string> = new Map([
  [
    "^(?:[A-Za-z0-9_'+\\-]+\\.)*[A-Za-z0-9_'+\\-]*[A-Za-z0-9_+-]@(?:[A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$",
    'email',
  ],
  [
    '^P(?:(\\d+W)|(?!.*W)(?=\\d|T\\d)(\\d+Y)?(\\d+M)?(\\d+D)?(T(?=\\d)(\\d+H)?(\\d+M)?(\\d+([.,]\\d+)?S)?)?)$',
    'duration',
  ],
  [
    '^(?=.{1,253}\\.?$)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\\.[a-zA-Z0-9](?:[-0-9a-zA-Z]{0,61}[0-9a-zA-Z])?)*\\.?$',
    'hostname',
  ],
]);
