import { execFileSync } from 'node:child_process';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { brotliDecompress } from 'node:zlib';
import { root } from '../../../support/programs.ts';

/**
 * Unpacks SwiftShader, Vulkan on the CPU, into a folder. Returns the environment of a process whose WebGPU runs on it. It
 * is a part of the browser in the package `@sparticuz/chromium`, for Linux on x64.
 */
export async function unpackSwiftShader(folder: string): Promise<Record<string, string>> {
  const packed = await readFile(join(root, 'node_modules/@sparticuz/chromium/bin/swiftshader.tar.br'));
  await mkdir(folder, { recursive: true });
  const input = await promisify(brotliDecompress)(packed);
  execFileSync('tar', ['--extract', '--directory', folder], { input });
  return { VK_ICD_FILENAMES: join(folder, 'vk_swiftshader_icd.json'), LD_LIBRARY_PATH: folder };
}
