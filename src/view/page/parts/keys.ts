import { signal } from '@preact/signals';
import { useLayoutEffect, useRef } from 'preact/hooks';

/** A key of a panel. `key` as in the keyboard event: `j`, `Enter`, `?`. */
interface Key {
  key: string;
  /** Text in the help, such as `Next rollout`. */
  does: string;
  run(): void;
}

/** The keys that work now, the innermost part of the page last. */
export const activeKeys = signal<readonly (readonly Key[])[]>([]);

/** Gives a part of the page its keys while it is shown. Later parts win. */
export function useKeys(keys: readonly Key[]): void {
  const latest = useRef(keys);
  latest.current = keys;
  const names = keys.map(({ key, does }) => `${key} ${does}`).join('\n');
  // The names tell whether the keys are others; what they do is read when they are pressed.
  useLayoutEffect(() => {
    const entry = keys.map(({ key, does }, index) => ({
      key,
      does,
      run: () => latest.current[index]?.run(),
    }));
    activeKeys.value = [...activeKeys.peek(), entry];
    return () => {
      activeKeys.value = activeKeys.peek().filter((other) => other !== entry);
    };
  }, [names]);
}

/** Whether the event belongs to something that takes the key itself: a text field, or Enter on a link. */
function isTaken(event: KeyboardEvent): boolean {
  const { target } = event;
  if (!(target instanceof HTMLElement)) return false;
  if (target.closest('dialog')) return true;
  if (target.closest('input[type=checkbox], input[type=radio]')) return event.key === ' ';
  if (target.closest('input, textarea, select, [contenteditable]')) return event.key !== 'Escape';
  return ['Enter', ' '].includes(event.key) && target.closest('a, button, summary, [role=button]') !== null;
}

window.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTaken(event)) return;
  const key = activeKeys.peek().findLast((keys) => keys.some((one) => one.key === event.key));
  const found = key?.find((one) => one.key === event.key);
  if (!found) return;
  event.preventDefault();
  // A button or a link that was used before would take the Enter that is meant for the cursor.
  if (['j', 'k'].includes(event.key) && event.target instanceof HTMLElement) event.target.blur();
  found.run();
});
