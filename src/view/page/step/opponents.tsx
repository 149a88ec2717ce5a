import type { StepDetail } from '../../api.ts';
import { formatNumber } from '../parts/format.ts';
import { TableHead } from '../parts/table-head.tsx';

/** How the model did against each model that played a seat. */
export function Opponents({ opponents }: Pick<NonNullable<StepDetail['report']>, 'opponents'>) {
  return (
    <section class="panel" aria-label="Opponents">
      <h2 class="panel-head">Opponents</h2>
      <table>
        <TableHead columns={['Opponent', 'Seat', 'Rollouts', 'Reward against it']} />
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
