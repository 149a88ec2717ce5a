import { randomUUID } from 'node:crypto';

/** A variable by which a command and what it starts can be found again. */
export const newMark = (): string => `MARTINGALE_COMMAND=${randomUUID()}`;

/** For `bash`: ends every process that has the variable which `MARK` holds. */
export const killMarked =
  'for p in /proc/[0-9]*; do while IFS= read -r -d "" v; do [ "$v" = "$MARK" ] && kill -9 "$(basename "$p")"; done < $p/environ; done 2>/dev/null; true';
