import { refusedFolder } from './refused-folder.ts';
import { KeyStore } from './store/key-store.ts';

/**
 * Opens the keys of a data folder; the folder and the file are made where they are not there.
 * @throws ServiceError `bad_data_folder`, `storage_full`, `storage_read_only` and `storage_failed` where that cannot be.
 */
export async function openKeys(dataFolder: string): Promise<KeyStore> {
  try {
    return KeyStore.open(dataFolder);
  } catch (error) {
    throw await refusedFolder(error, dataFolder);
  }
}
