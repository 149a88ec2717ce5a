/** What is wrong with a file of a checkpoint that is a pointer of Git LFS. */
export const lfsProblem = 'is a pointer of Git LFS, not the file itself. Run `git lfs pull`';

const beginning = 'version https://git-lfs';

/** Whether a file is a pointer of Git LFS, by its first 8 bytes or more. */
export const isLfsPointer = (bytes: Uint8Array): boolean =>
  bytes.length >= 8 && beginning.startsWith(new TextDecoder().decode(bytes.subarray(0, beginning.length)));
