import type { StepDetail } from '../../api.ts';
import { formatNumber } from '../parts/format.ts';

/** How the model did against each model that played a seat. */
export function Opponents({ opponents }: Pick<NonNullable<StepDetail['report']>, 'opponents'>) {
  return (
    <section class="panel" aria-label="Opponents">
      <h2 class="panel-head">Opponents</h2>
      <table>
        <thead>
          <tr>
            <th>Opponent</th>
            <th>Seat</th>
            <th>Rollouts</th>
            <th>Reward against it</th>
          </tr>
        </thead>
        <tbody>
          {opponents.map(({ seat, model, rollouts, reward }) => (
            <tr key={`${seat} ${model}`}>
              <td class="mono">{model}</td>
              <td>{seat}</td>
              <td>{rollouts}</td>
              <td>{formatNumber(reward)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
