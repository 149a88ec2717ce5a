import { spawnSync } from 'node:child_process';

/** Whether this machine can make local sandboxes: it has `bwrap` and may use it. */
export const hasBubblewrap =
  spawnSync('bwrap', ['--unshare-pid', '--ro-bind', '/', '/', '--dev', '/dev', '--proc', '/proc', 'true'])
    .status === 0;
