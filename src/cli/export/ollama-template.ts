import { CodedTemplate, type Language } from '../../language/index.ts';

/** Placeholders for the texts of messages. */
const marks = [
  '\u0001system\u0001',
  '\u0001user\u0001',
  '\u0001assistant\u0001',
  '\u0001again\u0001',
] as const;

/**
 * A chat template in the form of Ollama's (https://docs.ollama.com/template), which writes conversations without tools as
 * the model's own does; null if it cannot be one that frames each message alike, or if it shows tools, for which Ollama
 * finds its own.
 */
export function ollamaTemplate({ tokenizer, format }: Language): string | null {
  if (format.calls || format.unreadCall !== undefined || format.channels) return null;
  const { template: source, variables, endToken, beginToken } = format;
  const template = new CodedTemplate(source, tokenizer.added, Object.values(variables));
  const write = (messages: object[]) => {
    const values = { messages, tools: null, documents: null, add_generation_prompt: true };
    const parts = template.render(variables, values);
    // Ollama writes the begin token itself.
    const [first] = parts;
    const rest = first?.type === 'special' && first.token === beginToken ? parts.slice(1) : parts;
    return rest.map((part) => (part.type === 'text' ? part.text : tokenizer.text(part.token))).join('');
  };
  const [system, user, assistant, again] = marks;
  const message = (role: string, content: string) => ({ role, content });
  const whole = write([
    message('system', system),
    message('user', user),
    message('assistant', assistant),
    message('user', again),
  ]);
  const bare = write([message('user', user)]);
  const pieces = whole.split(new RegExp(marks.join('|')));
  const [systemOpen = '', ...others] = pieces;
  const end = tokenizer.text(endToken);
  const spaces = /^\s*/.exec((others[0] ?? '').slice(end.length))?.[0] ?? '';
  const close = end + spaces;
  if (others.length !== marks.length || !others.every((piece) => piece.startsWith(close))) return null;
  const [userOpen, assistantOpen, userAgain, replyOpen] = others.map((piece) => piece.slice(close.length));
  if (userOpen !== userAgain || assistantOpen !== replyOpen || userOpen === undefined || !assistantOpen)
    return null;
  const withoutSystem = `${userOpen}${user}${close}${assistantOpen}`;
  if (!bare.endsWith(withoutSystem)) return null;
  const usual = bare.slice(0, -withoutSystem.length);
  const framed = (open: string) => `${open}{{ .Content }}${close}`;
  const found = [
    `{{ if not .System }}${usual}{{ end }}`,
    '{{ range .Messages }}',
    `{{ if eq .Role "system" }}${framed(systemOpen)}`,
    `{{ else if eq .Role "user" }}${framed(userOpen)}`,
    `{{ else if eq .Role "assistant" }}${framed(assistantOpen)}{{ end }}{{ end }}`,
    assistantOpen,
  ].join('');
  return [usual, systemOpen, userOpen, assistantOpen, close].some((text) => /\{\{|"""/.test(text))
    ? null
    : found;
}
