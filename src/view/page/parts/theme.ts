import { computed, effect, signal } from '@preact/signals';

type Choice = 'light' | 'dark' | 'system';

const stored = localStorage.getItem('theme');
const dark = matchMedia('(prefers-color-scheme: dark)');
const system = signal(dark.matches);
dark.addEventListener('change', ({ matches }) => {
  system.value = matches;
});

/** What the user chose; the system's theme until then. */
const themeChoice = signal<Choice>(stored === 'light' || stored === 'dark' ? stored : 'system');

/** The theme that shows. Charts draw again when it changes. */
export const theme = computed<'light' | 'dark'>(() => {
  if (themeChoice.value !== 'system') return themeChoice.value;
  return system.value ? 'dark' : 'light';
});

effect(() => {
  document.documentElement.dataset.theme = theme.value;
});

/** Changes to the other theme, and remembers it. */
export function toggleTheme(): void {
  const next = theme.peek() === 'dark' ? 'light' : 'dark';
  themeChoice.value = next;
  localStorage.setItem('theme', next);
}

/** The value of a CSS variable in the theme that shows, for what draws on a canvas. Reads {@link theme}. */
export function colour(name: string): string {
  void theme.value;
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
