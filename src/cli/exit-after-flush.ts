/** How long what was left running may take to end by itself. */
const graceMs = 2000;

/** How long a reader of the output may take to read what has been written. */
const readMs = 60_000;

/** Kinds that a program's own input and output are of. */
const ordinary = new Set(['TTYWrap', 'PipeWrap', 'FSReqCallback', 'WriteWrap', 'SimpleWriteWrap']);

/**
 * For the end of a program: what others left running, a timer of an agent's say, does not keep it from ending.
 * Where something still does after two seconds, once the output has been read, it is told what kinds there are, and
 * ends with its exit code.
 */
export function exitAfterFlush(): void {
  const endsAt = performance.now() + readMs;
  const look = () => {
    const unread = process.stdout.writableLength + process.stderr.writableLength;
    // Alone it keeps no program from its end.
    if (unread > 0 && performance.now() < endsAt) setTimeout(look, graceMs).unref();
    else leave();
  };
  setTimeout(look, graceMs).unref();
}

function leave(): void {
  const kinds = new Set(process.getActiveResourcesInfo().filter((kind) => !ordinary.has(kind)));
  process.stderr.write(
    `Something was left running (${[...kinds].join(', ') || 'of no known kind'}); ended without it.\n`,
    () => process.exit(),
  );
}
