/**
 * Characters of a value's JSON; fewer where texts have to be escaped. Counting ends where there are more than `most`:
 * it takes no longer for a value that is far too large.
 */
export function charactersOfJson(value: unknown, most: number): number {
  if (typeof value === 'string') return value.length + 2;
  if (typeof value !== 'object' || value === null) return String(value).length;
  // The brackets, and a comma less than there are entries.
  let characters = 1;
  if (Array.isArray(value)) {
    for (const item of value) {
      characters += 1 + charactersOfJson(item, most - characters);
      if (characters > most) return characters;
    }
    return Math.max(2, characters);
  }
  for (const [name, member] of Object.entries(value)) {
    if (member === undefined) continue;
    characters += name.length + 4 + charactersOfJson(member, most - characters);
    if (characters > most) return characters;
  }
  return Math.max(2, characters);
}
