import { type ChatCompletionRequest, chatCompletionRequestSchema } from '../../../src/contract/index.ts';
import { builtInModels } from '../../../src/engines/embedded/base-models.ts';
import { builtInLanguage } from '../../../src/engines/embedded/built-in/built-in-language.ts';
import { toPrompt } from '../../../src/service/inference/prompt.ts';
import { baseModelTools } from '../../../src/service/inference/resolve-model.ts';

export const { tokenizer, format } = builtInLanguage();
export const tools = baseModelTools({ tokenizer: () => tokenizer, chatFormat: () => format })(
  'martingale-tiny',
);
const [base] = builtInModels;

/** The prompt of a request, by the embedded engine's tokenizer and template. */
export async function promptOf(request: ChatCompletionRequest): Promise<{ tokens: number[]; own: boolean }> {
  if (!base) throw new Error('there is no embedded base model');
  return toPrompt(chatCompletionRequestSchema.parse(request), { tools, base });
}

/** Tokens as text that shows special tokens. Plain text that looks like one cannot be distinguished. */
export function shown(tokens: readonly number[]): string {
  const texts: string[] = [];
  let run: number[] = [];
  const flush = () => {
    texts.push(tokenizer.decode(run));
    run = [];
  };
  for (const token of tokens) {
    if (tokenizer.bytes(token).length > 0) {
      run.push(token);
      continue;
    }
    flush();
    texts.push(tokenizer.text(token));
  }
  flush();
  return texts.join('');
}

export const shownPrompt = async (request: ChatCompletionRequest) => shown((await promptOf(request)).tokens);

/** The error message with which the service would answer. */
export async function refusalOf(request: ChatCompletionRequest): Promise<string> {
  try {
    await promptOf(request);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  throw new Error('nothing was refused');
}
