import { useState } from 'preact/hooks';
import type { ServiceQuestion, ServiceReply } from '../../api.ts';
import { post } from '../api-client.ts';
import { counted } from '../parts/format.ts';
import { setQuery } from '../router.ts';

/** An answer, or why there is none; null while it is awaited. */
type Answer = { reply: ServiceReply } | { problem: string } | null;

interface Turn {
  question: string;
  answers: [Answer, Answer];
}

const sides = ['left', 'right'] as const;

/** The same question to two checkpoints, each with its own conversation. */
export function Chat({ names, left, right }: { names: readonly string[]; left: string; right: string }) {
  const [turns, setTurns] = useState<readonly Turn[]>([]);
  const [settings, setSettings] = useState({ temperature: 0, maxTokens: 256 });
  const models = [left, right];
  const isBusy = turns.some(({ answers }) => answers.some((answer, side) => models[side] && answer === null));

  const ask = (question: string) => {
    const at = turns.length;
    setTurns([...turns, { question, answers: [null, null] }]);
    for (const [side, model] of models.entries()) {
      if (!model) continue;
      const body: ServiceQuestion = {
        model,
        messages: [...historyOf(turns, side), { role: 'user', content: question }],
        ...settings,
      };
      void post<ServiceReply>('service/chat', body)
        .then((reply): Answer => ({ reply }))
        .catch(
          (error: unknown): Answer => ({ problem: error instanceof Error ? error.message : String(error) }),
        )
        .then((answer) => setTurns((all) => withAnswer(all, at, side, answer)));
    }
  };

  return (
    <section class="panel" aria-label="Chat">
      <div class="chat-models">
        {sides.map((side, index) => (
          <label key={side}>
            <span class="hidden-text">Model on the {side}</span>
            <select
              class="field"
              value={models[index]}
              onChange={({ currentTarget }) => setQuery({ [side]: currentTarget.value })}
            >
              {(names.includes(models[index] ?? '') ? names : [models[index] ?? '', ...names]).map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          </label>
        ))}
      </div>
      <ol class="chat" aria-live="polite">
        {turns.map(({ question, answers }, at) => (
          <li key={at}>
            <p class="chat-question model-text">{question}</p>
            <div class="chat-answers">
              {answers.map((answer, side) => (
                <Reply key={side} answer={answer} isAsked={models[side] !== ''} />
              ))}
            </div>
          </li>
        ))}
      </ol>
      <form
        class="chat-form"
        onSubmit={(event) => {
          event.preventDefault();
          const field = event.currentTarget.elements.namedItem('question');
          if (!(field instanceof HTMLTextAreaElement) || field.value.trim() === '' || isBusy) return;
          ask(field.value);
          field.value = '';
        }}
      >
        <textarea
          class="field"
          name="question"
          rows={2}
          aria-label="Question to both"
          placeholder="A question to both"
          onKeyDown={(event) => {
            if (event.key !== 'Enter' || event.shiftKey) return;
            event.preventDefault();
            event.currentTarget.form?.requestSubmit();
          }}
        />
        <label>
          <span class="muted">Temperature </span>
          <input
            class="field"
            type="number"
            min="0"
            max="2"
            step="0.1"
            value={settings.temperature}
            onInput={({ currentTarget }) =>
              setSettings({ ...settings, temperature: currentTarget.valueAsNumber || 0 })
            }
          />
        </label>
        <label>
          <span class="muted">Tokens </span>
          <input
            class="field"
            type="number"
            min="1"
            step="1"
            value={settings.maxTokens}
            onInput={({ currentTarget }) =>
              setSettings({ ...settings, maxTokens: Math.max(1, currentTarget.valueAsNumber || 1) })
            }
          />
        </label>
        <button type="submit" class="button" disabled={isBusy}>
          Ask
        </button>
        <button type="button" class="button" disabled={turns.length === 0} onClick={() => setTurns([])}>
          Clear
        </button>
      </form>
    </section>
  );
}

function Reply({ answer, isAsked }: { answer: Answer; isAsked: boolean }) {
  if (!isAsked) return <div />;
  if (answer === null) return <div class="muted">Waits</div>;
  if ('problem' in answer)
    return (
      <div class="tag bad" role="alert">
        {answer.problem}
      </div>
    );
  const { text, reasoning, sampledTokens, model } = answer.reply;
  return (
    <div>
      {reasoning && <p class="model-text muted">{reasoning}</p>}
      <p class="model-text" dir="auto">
        {text || <span class="muted">Empty</span>}
      </p>
      <small class="muted">
        {model}, {counted(sampledTokens, 'token')}
      </small>
    </div>
  );
}

/** What one side has heard and said so far; a question without an answer is left out. */
const historyOf = (turns: readonly Turn[], side: number): ServiceQuestion['messages'] =>
  turns.flatMap(({ question, answers }): ServiceQuestion['messages'] => {
    const answer = answers[side];
    if (!answer || !('reply' in answer)) return [];
    return [
      { role: 'user', content: question },
      { role: 'assistant', content: answer.reply.text },
    ];
  });

const withAnswer = (turns: readonly Turn[], at: number, side: number, answer: Answer): readonly Turn[] =>
  turns.map((turn, index) => {
    if (index !== at) return turn;
    const [a, b] = turn.answers;
    return { ...turn, answers: side === 0 ? [answer, b] : [a, answer] };
  });
