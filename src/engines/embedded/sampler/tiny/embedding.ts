import { f32x4, i32 } from '../../wasm/instructions.ts';
import { eachVector } from '../../wasm/vectors.ts';
import type { FunctionWriter, Locals } from '../../wasm/wasm-module.ts';

/** Bytes of a number. */
const size = 4;

/**
 * Writes a function that adds up the embeddings of tokens: of `addresses` [tokens, tables], the addresses of the rows of
 * the tables [width], of `output` [tokens, width] and of `rows`, the number of tokens.
 */
export function writeEmbedding(
  code: FunctionWriter,
  { width, tables }: { width: number; tables: number },
  { addresses, output, rows }: Locals<'addresses' | 'output' | 'rows'>,
): void {
  const end = code.local('i32', i32.add(output.get, i32.multiply(rows.get, i32.constant(width * size))));
  const rowEnd = code.local('i32');
  const sources = code.locals(tables, 'i32');
  code.repeat(() => {
    for (const [table, source] of sources.entries())
      code.do(source.set(i32.load(addresses.get, table * size)));
    code.do(code.advance(addresses, tables * size));
    code.do(rowEnd.set(i32.add(output.get, i32.constant(width * size))));
    eachVector(code, output, rowEnd.get, () => {
      const sum = sources.map(({ get }) => f32x4.load(get)).reduce(f32x4.add);
      code.do(f32x4.store(output.get, 0, sum));
      for (const source of sources) code.do(code.advance(source, 4 * size));
    });
    return i32.differs(output.get, end.get);
  });
}
