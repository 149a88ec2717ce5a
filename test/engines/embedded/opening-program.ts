/** Opens the embedded engine and prints the outcome; run by missing-runtime.test.ts. */
import { MartingaleError } from '../../../src/contract/index.ts';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';

try {
  const engine = await createEmbeddedEngine({ threads: 1 });
  await engine.close();
  console.log('works');
} catch (error) {
  if (!MartingaleError.isInstance(error)) throw error;
  console.log(error.code, error.message);
}
