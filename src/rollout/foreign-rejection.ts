type Listener = (...given: never[]) => void;

/** What Node was told to do with rejections that nobody waits for; `throw` where it was told nothing. */
function modeOf(): string {
  const given = [...(process.env.NODE_OPTIONS ?? '').split(/\s+/), ...process.execArgv];
  const at = given.findLastIndex((flag) => flag.startsWith('--unhandled-rejections'));
  if (at < 0) return 'throw';
  return given[at]?.split('=')[1] ?? given[at + 1] ?? 'throw';
}

/**
 * Does with a rejection of somebody else's what Node would do if `listener` were not there: a listener alone keeps
 * Node from it. @param mark Property of our listeners, of other copies too, that says whether a rejection is theirs.
 */
export function letGo(reason: unknown, { listener, mark }: { listener: Listener; mark: symbol }): void {
  const listeners: Listener[] = process.listeners('unhandledRejection');
  const ours = listeners.filter((other) => mark in other);
  const isOurs = ours.some((other) => {
    const owns: unknown = Reflect.get(other, mark);
    return typeof owns === 'function' && owns() === true;
  });
  // Of several copies one does it; and nobody where somebody listens.
  if (isOurs || ours[0] !== listener || ours.length < listeners.length) return;
  const mode = modeOf();
  if (mode === 'throw') throw reason;
  if (mode !== 'warn-with-error-codes') return;
  process.exitCode = 1;
  process.emitWarning(String(reason), 'UnhandledPromiseRejectionWarning');
}
