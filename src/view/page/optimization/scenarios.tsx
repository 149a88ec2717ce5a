import type { OptimizationDetail } from '../../api.ts';
import { counted, formatNumber } from '../parts/format.ts';
import { numbers, TableHead } from '../parts/table-head.tsx';
import { addressOf } from '../router.ts';

/** Most scenarios in the table. */
const maxShown = 200;

/** The reward of each candidate on each validation scenario; the largest ones are marked. */
export function Scenarios({
  optimization: { scenarios, candidates },
  runId,
}: {
  optimization: OptimizationDetail;
  runId: string;
}) {
  const winners = candidates.map(({ wins }) => new Set(wins));
  return (
    <section class="panel" aria-label="Scenarios">
      <div class="panel-head">
        <h2>Who wins which scenario</h2>
        <span class="muted">the largest rewards are marked</span>
      </div>
      <div class="table-scroll">
        <table class="winners">
          <TableHead
            columns={[
              'Scenario',
              ...candidates.map(({ number }) => numbers(String(number), `Candidate ${number}`)),
            ]}
          />
          <tbody>
            {scenarios.slice(0, maxShown).map((title, at) => (
              <tr key={at}>
                <th scope="row" title={title}>
                  {title}
                </th>
                {candidates.map(({ number, rewards, which }) => (
                  <td key={number} class="number" data-wins={winners[number]?.has(at) ? '' : undefined}>
                    <a href={addressOf(['runs', runId, 'steps', which, 'groups', at])}>
                      {formatNumber(rewards[at])}
                      {winners[number]?.has(at) && <span class="hidden-text"> wins</span>}
                    </a>
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {scenarios.length > maxShown && (
        <p class="muted more">and {counted(scenarios.length - maxShown, 'more scenario')}</p>
      )}
    </section>
  );
}
