import { evaluateGuessing } from './guessing.ts';

/** A process that evaluates: `evaluation-program.ts <base URL> <directory>`. */
const [, , baseUrl = '', directory = ''] = process.argv;
const { groups: _, seconds: __, ...result } = await evaluateGuessing(baseUrl, { directory });
console.log(JSON.stringify(result));
