/**
 * Warns the program's author: Node prints it once on standard error, and `process.on('warning')` hears it, with the name
 * `MartingaleWarning` and the code.
 */
export function warn(code: `martingale_${string}`, message: string): void {
  process.emitWarning(message, { type: 'MartingaleWarning', code });
}
