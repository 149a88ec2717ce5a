import { Turn, Turns } from '../rollout/turn.tsx';
import { type ChatAnswer, openCalls, turnsOf } from './conversation.ts';

/** What one model answered; where it called tools, fields for what they return. */
export function Answer({
  answer,
  model,
  onResults,
}: {
  answer: ChatAnswer;
  model: string;
  onResults: (results: string[]) => void;
}) {
  const calls = openCalls(answer);
  return (
    <div>
      <Turns label={`Answer of ${model}`}>
        {turnsOf(answer).map((turn, at) => (
          <Turn key={at} turn={turn} />
        ))}
      </Turns>
      {answer.isAwaited && <p class="muted">Waits</p>}
      {answer.problem !== null && (
        <p class="tag bad" role="alert">
          {answer.problem}
        </p>
      )}
      {calls.length > 0 && (
        <form
          class="tool-results"
          onSubmit={(event) => {
            event.preventDefault();
            const values = new FormData(event.currentTarget);
            onResults(calls.map((_, at) => String(values.get(`result-${at}`) ?? '')));
          }}
        >
          {calls.map(({ id, function: { name } }, at) => (
            <label key={id}>
              <span class="muted">
                <code>{name}</code> returns
              </span>
              <input class="field" name={`result-${at}`} autocomplete="off" />
            </label>
          ))}
          <button type="submit" class="button">
            Return
          </button>
        </form>
      )}
      <small class="muted">{model}</small>
    </div>
  );
}
