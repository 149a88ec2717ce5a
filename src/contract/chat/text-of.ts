type Part = { text: string } | { refusal: string };

/** The content of a message as one string, because agent libraries may split a reply into parts. */
export function textOf(content: string | readonly Part[] | null | undefined): string {
  if (content === null || content === undefined) return '';
  if (typeof content === 'string') return content;
  return content.map((part) => ('text' in part ? part.text : part.refusal)).join('');
}
