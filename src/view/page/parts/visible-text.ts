/** A run of text: as it is, or a stand-in for characters that would not be seen or would move the text around them. */
type TextRun =
  | { kind: 'text'; text: string }
  /** `text` is what stands in: `ESC`, `U+202E`, `U+0301 ×40`. `title` tells what it is. */
  | { kind: 'mark'; text: string; title: string };

/** As many marks on one letter as any writing system needs; more of them would be drawn over other lines. */
const maxCombining = 4;

/**
 * Control characters (but tab and newline), bidirectional controls, invisible characters that no language needs,
 * tags and the variation selectors that can hide text, halves of pairs; and runs of combining marks. ZWJ, ZWNJ and the
 * 16 common variation selectors stay: emoji and Persian need them.
 */
const hidden =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it finds.
  /([\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e01ef}\p{Surrogate}])\1*|\p{M}{5,}/gu;

const names: Record<number, string> = {
  27: 'escape: starts a terminal command',
  8203: 'zero-width space',
  8206: 'left-to-right mark',
  8207: 'right-to-left mark',
  8234: 'left-to-right embedding',
  8235: 'right-to-left embedding',
  8236: 'end of embedding or override',
  8237: 'left-to-right override',
  8238: 'right-to-left override',
  8294: 'left-to-right isolate',
  8295: 'right-to-left isolate',
  8296: 'first strong isolate',
  8297: 'end of isolate',
  65279: 'byte order mark',
};

/** Splits text that a model wrote into runs that can be shown: nothing of it is lost, hidden or moved. */
export function visibleRuns(text: string): TextRun[] {
  const runs: TextRun[] = [];
  let shown = 0;
  for (const { 0: found, 1: control, index } of text.matchAll(hidden)) {
    const isMarks = control === undefined;
    const points = [...found];
    const kept = isMarks ? points.slice(0, maxCombining).join('') : '';
    const before = text.slice(shown, index) + kept;
    if (before) runs.push({ kind: 'text', text: before });
    shown = index + found.length;
    if (isMarks) {
      const more = points.length - maxCombining;
      runs.push({ kind: 'mark', text: `+${more} marks`, title: `${more} more combining marks` });
    } else runs.push(markOf(control, points.length));
  }
  if (shown < text.length) runs.push({ kind: 'text', text: text.slice(shown) });
  return runs;
}

/** The text on one line, for lists and labels: breaks become `↵`, hidden characters their stand-ins. */
export function oneLine(text: string, limit = 200): string {
  // Cut before looking closer: the text may be of any length.
  const start = cut(text, limit);
  const line = visibleRuns(start)
    .map((run) => run.text)
    .join('')
    .replace(/\s*\n\s*/g, ' ↵ ')
    .replaceAll('\t', ' ');
  return start.length < text.length ? `${line} …` : line;
}

/** The first characters of a text, without half of a pair at its end. */
export function cut(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const last = text.charCodeAt(limit - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? limit - 1 : limit);
}

function markOf(character: string, count: number): TextRun {
  const point = character.codePointAt(0) ?? 0;
  const code = `U+${point.toString(16).toUpperCase().padStart(4, '0')}`;
  const times = count > 1 ? ` ×${count}` : '';
  return {
    kind: 'mark',
    text: symbolOf(point, code) + times,
    title: `${names[point] ?? 'hidden character'} (${code})${times}`,
  };
}

/** What ASCII calls its control characters; the pictures that Unicode has for them are in few fonts. */
const controls =
  'NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US'.split(
    ' ',
  );

const symbolOf = (point: number, code: string): string =>
  point === 0x7f ? 'DEL' : (controls[point] ?? code);
