import { resolve } from 'node:path';
import { printable } from '../../contract/index.ts';
import type { Opening } from '../../view/index.ts';

export interface OpeningFlags {
  model: string;
  /** Folder with runs. */
  in: string;
  /** Sends only what is typed. */
  plain?: boolean;
}

/** How the model's newest run asked it, and a line on stderr that says so; null if no run shows it or nobody wants it. */
export async function chatOpening({ model, in: folder, plain }: OpeningFlags): Promise<Opening | null> {
  if (plain) return null;
  const { openingParts, RunViews } = await import('../../view/index.ts');
  const opening = await new RunViews([resolve(folder)]).opening(model);
  if (opening) note(foundText(opening, openingParts(opening)));
  // A base model has no run.
  else if (model.includes('/'))
    note(
      `No run in ${resolve(folder)} trained ${model}, so the chat sends no instructions and no tools. A model that was ` +
        'trained with them answers as if it had never been trained: name the folder of its runs with --in.',
    );
  return opening;
}

const note = (text: string): void => void process.stderr.write(`${printable(text)}\n`);

function foundText({ title, tools, example }: Opening, parts: readonly string[]): string {
  return [
    parts.length === 0
      ? `Asked as in the run ${title}.`
      : `Asked as in the run ${title}, with ${parts.join(', ')}.`,
    ...(tools.length > 0 ? ['Where it calls a tool, you type what the tool returns.'] : []),
    ...(example === null ? [] : [`For example: ${example}`]),
  ].join(' ');
}
