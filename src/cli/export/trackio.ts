import { request } from 'undici';
import { MartingaleError } from '../../contract/index.ts';
import type { StepReport } from '../../progress/index.ts';
import { readText } from '../../util/answers.ts';
import { figuresOf } from '../run-commands/plot.ts';

/** Steps of one request. */
const batch = 200;

interface TrackioTarget {
  /** Address of the server. */
  url: string;
  /** Its write token. */
  token: string;
  project: string;
  run: string;
}

/**
 * Logs the figures of all steps of a run to a Trackio server. Each entry has an id of its own, so that a repeat adds
 * nothing.
 *
 * @throws MartingaleError (`export_refused`) for an answer that is no success, and if the server cannot be reached.
 */
export async function logToTrackio(
  { url, token, project, run }: TrackioTarget,
  reports: readonly StepReport[],
  config: Readonly<Record<string, unknown>>,
): Promise<void> {
  const logs = reports.map((report, index) => ({
    project,
    run,
    metrics: Object.fromEntries(figuresOf(report)),
    step: report.step,
    log_id: `martingale/${run}/${report.step}`,
    ...(index === 0 ? { config } : {}),
  }));
  for (let from = 0; from < logs.length; from += batch) {
    const body = JSON.stringify({ logs: logs.slice(from, from + batch), hf_token: null });
    const headers = { 'content-type': 'application/json', 'x-trackio-write-token': token };
    const refused = (why: string, cause?: unknown) =>
      new MartingaleError('export_refused', `${url} took ${from} of ${logs.length} steps: ${why}`, { cause });
    const answer = await request(new URL('api/bulk_log', url.endsWith('/') ? url : `${url}/`), {
      method: 'POST',
      headers,
      body,
    }).catch((cause) => {
      throw refused(String(cause), cause);
    });
    const text = await readText(answer.body, 2 ** 20);
    if (answer.statusCode >= 300) throw refused(`${answer.statusCode} ${text.slice(0, 300)}`);
  }
}
