import { activeKeys } from '../parts/keys.ts';

const names: Record<string, string> = { Escape: 'esc', Enter: 'enter', ArrowLeft: '←', ArrowRight: '→' };

/** Shows the keys that work in the present panel. */
export function showHelp(): void {
  const dialog = document.querySelector<HTMLDialogElement>('dialog.help');
  if (!dialog?.open) dialog?.showModal();
}

export function Help() {
  // An inner part that takes a key hides the one of the same name around it.
  const keys = new Map(activeKeys.value.flat().map(({ key, does }) => [key, does]));
  return (
    <dialog class="help" aria-labelledby="help-title" closedby="any">
      <header>
        <h2 id="help-title">Keys</h2>
        <form method="dialog">
          <button type="submit" class="button">
            Close
          </button>
        </form>
      </header>
      <dl>
        {[...keys].map(([key, does]) => (
          <>
            <dt key={key}>
              <kbd>{names[key] ?? key}</kbd>
            </dt>
            <dd>{does}</dd>
          </>
        ))}
      </dl>
    </dialog>
  );
}
