import { resolve } from 'node:path';
import { printable, withoutStep } from '../../contract/index.ts';

/** Under which forms a model was trained, if its run is in `folder`, and in which words other programs take them. */
export async function formHint(folder: string, name: string): Promise<string> {
  const forms = await formsOf(withoutStep(name), folder);
  const lines =
    forms.length > 0
      ? forms.map((form) => `Its replies were sampled under ${form}`)
      : ['Its replies were sampled under a schema, another grammar or a tool choice.'];
  lines.push(
    'A model does not learn what was forced: ask for it again, with response_format (llama.cpp, vLLM and others of the OpenAI API), structured_outputs (vLLM) or format (Ollama).',
  );
  return `${lines.map(printable).join('\n')}\n`;
}

/** The forms that the newest run of a model asked its replies in; none if it is not below `folder`, or unreadable. */
async function formsOf(model: string, folder: string): Promise<string[]> {
  const { RunViews } = await import('../../view/index.ts');
  const { readRun } = await import('../../training/index.ts');
  const { runs } = await new RunViews([resolve(folder)]).list();
  const run = runs.find((row) => row.model !== null && withoutStep(row.model) === model);
  if (!run || run.status === 'broken') return [];
  const reports = await (await readRun(run.folder)).reports();
  return [...new Set(reports.flatMap(({ askedForms }) => askedForms))];
}
