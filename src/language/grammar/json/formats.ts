/** A label of a host name: letters and digits, with single hyphens between them, 59 characters at most. */
const LABEL = '(?:[A-Za-z0-9]-?){0,29}[A-Za-z0-9]';
/** As the last label, so that the name is not an IPv4 address. */
const TOP_LABEL = '[A-Za-z](?:-?[A-Za-z0-9]){0,29}';
/** Four labels have 239 characters at most; RFC 1123 allows 253. */
const HOST = `(?:${LABEL}\\.){0,3}${TOP_LABEL}`;

const LEAP_YEAR = '(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)';
const DATE = `(?:\\d{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)|${LEAP_YEAR}-02-29)`;
const TIME = '(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)';

const EMAIL = `[A-Za-z0-9_+-]{1,20}(?:\\.[A-Za-z0-9_+-]{1,20}){0,2}@(?:${LABEL}\\.){1,3}[A-Za-z]{2,24}`;

const OCTET = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)';
const HEX = '[0-9A-Fa-f]{1,4}';
/** Eight groups, or fewer with `::` among them. IPv4 at the end is left out. */
const IPV6 = [
  `(?:${HEX}:){7}${HEX}`,
  `(?:${HEX}:){1,7}:`,
  ...[1, 2, 3, 4, 5, 6].map((after) => `(?:${HEX}:){1,${7 - after}}(?::${HEX}){${after}}`),
  `:(?:(?::${HEX}){1,7}|:)`,
].join('|');

/** A character of a path (`pchar` of RFC 3986), and one of a query or fragment. */
const PATH_CHARACTER = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";
const QUERY_CHARACTER = "(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})";
const FIRST_STEP = "(?:[A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})+";
const PORT = '(?::[1-9]\\d{0,3})?';
const PATH = `(?:/${PATH_CHARACTER}*)*`;
const QUERY = `(?:\\?${QUERY_CHARACTER}*)?(?:#${QUERY_CHARACTER}*)?`;
const URI = `(?:(?:https?|wss?|ftp)://${HOST}${PORT}${PATH}|file:///${PATH_CHARACTER}+${PATH})${QUERY}`;
const RELATIVE = `(?:(?:/${PATH_CHARACTER}+|${FIRST_STEP})${PATH})?`;

const POINTER = '(?:/(?:[^~/]|~[01])*)*';
const DURATION_TIME = 'T(?:\\d{1,9}H(?:\\d{1,9}M(?:\\d{1,9}S)?)?|\\d{1,9}M(?:\\d{1,9}S)?|\\d{1,9}S)';
const DURATION_DATE = '(?:\\d{1,9}Y(?:\\d{1,9}M(?:\\d{1,9}D)?)?|\\d{1,9}M(?:\\d{1,9}D)?|\\d{1,9}D)';
const DURATION = `P(?:${DURATION_DATE}(?:${DURATION_TIME})?|${DURATION_TIME}|\\d{1,9}W)`;

/** Parts of regular expressions: characters, escapes, classes and groups without groups in them. */
const REGEX_ATOM =
  '(?:[A-Za-z0-9 _,:;=!@#%&"\'<>~`./-]|\\\\[dDwWsStnr.*+?()\\[\\]{}|^$/\\\\]|\\[\\^?(?:[A-Za-z0-9 _.]|a-z|A-Z|0-9|\\\\[dDwWsS.\\[\\]\\\\-])+\\])';
const REGEX_TERMS = `(?:${REGEX_ATOM}(?:[*+?]\\??|\\{[1-9]\\})?)*`;
const REGEX_GROUP = `\\((?:\\?:)?${REGEX_TERMS}(?:\\|${REGEX_TERMS})*\\)[*+?]?`;
const REGEX = `\\^?${REGEX_TERMS}(?:${REGEX_GROUP}${REGEX_TERMS})*\\$?`;

const whole = (pattern: string) => `^(?:${pattern})$`;

/** Formats of strings. Every text that matches the pattern has the format; some texts of the format do not match. */
export const PATTERN_OF_FORMAT: ReadonlyMap<string, string> = new Map([
  ['date', whole(DATE)],
  ['time', whole(TIME)],
  ['date-time', whole(`${DATE}T${TIME}`)],
  ['duration', whole(DURATION)],
  ['uuid', whole('[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}')],
  ['email', whole(EMAIL)],
  ['idn-email', whole(EMAIL)],
  ['hostname', whole(HOST)],
  ['idn-hostname', whole(HOST)],
  ['ipv4', whole(`(?:${OCTET}\\.){3}${OCTET}`)],
  ['ipv6', whole(IPV6)],
  ['uri', whole(URI)],
  ['iri', whole(URI)],
  ['uri-reference', whole(`${URI}|${RELATIVE}${QUERY}`)],
  ['iri-reference', whole(`${URI}|${RELATIVE}${QUERY}`)],
  ['uri-template', whole(`(?:${URI}|${RELATIVE})(?:/\\{[A-Za-z0-9_]+\\}${PATH})*`)],
  ['json-pointer', whole(POINTER)],
  ['relative-json-pointer', whole(`(?:0|[1-9]\\d{0,8})(?:#|${POINTER})`)],
  ['regex', whole(REGEX)],
]);

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
 * Patterns of zod's formats that have look-ahead or match more than is readable, each with one that matches a part of
 * it. Written out: the engine's threads start without zod.
 */
export const PATTERN_IN_PLACE_OF: ReadonlyMap<string, string> = new Map([
  [
    "^(?:[A-Za-z0-9_'+\\-]+\\.)*[A-Za-z0-9_'+\\-]*[A-Za-z0-9_+-]@(?:[A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$",
    whole(EMAIL),
  ],
  [
    '^P(?:(\\d+W)|(?!.*W)(?=\\d|T\\d)(\\d+Y)?(\\d+M)?(\\d+D)?(T(?=\\d)(\\d+H)?(\\d+M)?(\\d+([.,]\\d+)?S)?)?)$',
    whole(DURATION),
  ],
  [
    '^(?=.{1,253}\\.?$)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\\.[a-zA-Z0-9](?:[-0-9a-zA-Z]{0,61}[0-9a-zA-Z])?)*\\.?$',
    whole(HOST),
  ],
]);
