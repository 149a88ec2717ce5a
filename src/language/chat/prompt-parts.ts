/** A rendered conversation with holes where the caller's texts or sampled ids go. */
export type PromptPart =
  | { type: 'special'; token: number }
  | { type: 'text'; text: string }
  | { type: 'slot'; index: number };

/** Around the number of a slot. Noncharacters of Unicode: no text in use holds them. */
export interface Marks {
  open: string;
  close: string;
}

export const markOf = ({ open, close }: Marks, slot: number) => `${open}${slot}${close}`;

/** Cuts a rendered text at its marks and its special tokens. */
export function cutAtMarks(
  rendered: string,
  special: ReadonlyMap<string, number>,
  { open, close }: Marks,
): PromptPart[] {
  const parts: PromptPart[] = [];
  const texts = [...special.keys()].sort((a, b) => b.length - a.length).map(escapeForPattern);
  const boundary = new RegExp([`${open}(\\d+)${close}`, ...texts].join('|'), 'g');
  let end = 0;
  for (const match of rendered.matchAll(boundary)) {
    if (match.index > end) parts.push({ type: 'text', text: rendered.slice(end, match.index) });
    end = match.index + match[0].length;
    const token = special.get(match[0]);
    parts.push(token === undefined ? { type: 'slot', index: Number(match[1]) } : { type: 'special', token });
  }
  if (end < rendered.length) parts.push({ type: 'text', text: rendered.slice(end) });
  return parts;
}

const escapeForPattern = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** The parts up to where a slot last stands, which is where its reader goes on; null where it does not stand. */
export function partsUpTo(parts: readonly PromptPart[], slot: number): PromptPart[] | null {
  const last = parts.findLastIndex((part) => part.type === 'slot' && part.index === slot);
  return last === -1 ? null : parts.slice(0, last + 1);
}
