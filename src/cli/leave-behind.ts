/** How long what was left running may take to end by itself. */
const graceMs = 2000;

/**
 * For the end of a program: what others left running, a timer of an agent's say, does not keep it from ending.
 * Where something still does after two seconds it is told what kinds there are, and ends with its exit code.
 */
export function leaveBehind(): void {
  // Alone it keeps no program from its end.
  setTimeout(() => {
    const kinds = new Set(process.getActiveResourcesInfo().filter((kind) => !ordinary.has(kind)));
    process.stderr.write(
      `Something was left running (${[...kinds].join(', ') || 'of no known kind'}); ended without it.\n`,
      () => process.exit(),
    );
  }, graceMs).unref();
}

/** Kinds that a program's own input and output are of. */
const ordinary = new Set(['TTYWrap', 'PipeWrap', 'FSReqCallback', 'WriteWrap']);
