import { mkdir, open, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { privateFolder, syncFolder } from '../../util/durable-files.ts';
import { damagedRecord } from '../errors.ts';
import { type IncomingFile, pieceBytes } from './incoming-file.ts';
import type { GroupRecord } from './store.ts';

/** Ids of stored groups, which are also the names of their files. */
export const groupPattern = /^group-[0-9a-f]{64}$/;

/** Path of a group's file in the folder of its model's groups. @throws ServiceError `data_folder_damaged` */
function groupFile(folder: string, id: string): string {
  if (!groupPattern.test(id)) throw damagedRecord('the id of a group', id);
  return join(folder, id);
}

/** Makes a file the file of a group, durably. One of equal content may be there already. */
export async function keepGroup(folder: string, id: string, file: IncomingFile): Promise<void> {
  const path = groupFile(folder, id);
  const first = await mkdir(folder, { recursive: true, mode: privateFolder });
  if (first !== undefined)
    for (const parent of [dirname(folder), dirname(dirname(folder))]) await syncFolder(parent);
  await file.keepAs(path);
}

export const removeGroup = (folder: string, id: string): Promise<void> =>
  rm(groupFile(folder, id), { force: true });

/** The gzip members of groups, one after another. Each piece is valid only until the next one is read. */
export async function* groupMembers(
  folder: string,
  groups: readonly Pick<GroupRecord, 'id' | 'memberBytes'>[],
): AsyncGenerator<Buffer> {
  const buffer = Buffer.allocUnsafe(pieceBytes);
  for (const { id, memberBytes } of groups) {
    await using file = await open(groupFile(folder, id), 'r');
    for (let at = 0; at < memberBytes; ) {
      const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, memberBytes - at), at);
      if (bytesRead === 0) throw damagedRecord('the size of a group', memberBytes);
      at += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  }
}

/** Reads the part of a group's file after its gzip member. */
export async function readAfterMember(
  folder: string,
  { id, memberBytes, bytes }: Pick<GroupRecord, 'id' | 'memberBytes' | 'bytes'>,
): Promise<Buffer> {
  await using file = await open(groupFile(folder, id), 'r');
  const rest = Buffer.allocUnsafe(bytes - memberBytes);
  for (let at = 0; at < rest.length; ) {
    const { bytesRead } = await file.read(rest, at, rest.length - at, memberBytes + at);
    if (bytesRead === 0) throw damagedRecord('the size of a group', bytes);
    at += bytesRead;
  }
  return rest;
}
