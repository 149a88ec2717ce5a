import { useState } from 'preact/hooks';
import { messageOf } from '../../../util/error.ts';
import type { ChatMessage, ServiceQuestion, ServiceReply } from '../../api.ts';
import { post } from '../api-client.ts';
import { setQuery } from '../router.ts';
import { Answer } from './answer.tsx';
import { type ChatAnswer, historyOf, messagesOf, type Turn, unanswered, withAnswer } from './conversation.ts';
import { OpeningNote, useOpening } from './opening.tsx';

const sides = [0, 1] as const;
type Side = (typeof sides)[number];

/** Asks two checkpoints the same question, each in its own conversation; as in training, if a run shows how. */
export function Chat({ names, left, right }: { names: readonly string[]; left: string; right: string }) {
  const [turns, setTurns] = useState<readonly Turn[]>([]);
  const [settings, setSettings] = useState({ temperature: 0, maxTokens: 256 });
  const [isSent, setSent] = useState(true);
  const found = useOpening(left, right);
  const models = [left, right] as const;
  const isBusy = turns.some(({ answers }) => answers.some(({ isAwaited }) => isAwaited));
  const example = turns.length === 0 ? found?.opening.example : null;

  const change = (at: number, side: Side, to: (answer: ChatAnswer) => ChatAnswer) =>
    setTurns((all) => withAnswer(all, { at, side }, to));

  const request = (at: number, side: Side, messages: ChatMessage[]) => {
    const openingOf = isSent ? (found?.model ?? null) : null;
    const body: ServiceQuestion = { model: models[side], openingOf, messages, ...settings };
    void post<ServiceReply>('service/chat', body)
      .then((reply) => change(at, side, ({ said }) => ({ ...unanswered, said: [...said, reply] })))
      .catch((error: unknown) => {
        change(at, side, ({ said }) => ({ said, problem: messageOf(error), isAwaited: false }));
      });
  };

  const ask = (question: string) => {
    const answers = [left, right].map((model) => ({ ...unanswered, isAwaited: model !== '' }));
    const [a = unanswered, b = unanswered] = answers;
    setTurns([...turns, { question, answers: [a, b] }]);
    for (const side of sides)
      if (models[side] !== '')
        request(turns.length, side, [...historyOf(turns, side), { role: 'user', content: question }]);
  };

  /** Gives the results of tools to the model that called them. */
  const goOn = (at: number, side: Side, results: string[]) => {
    const turn = turns[at];
    if (!turn) return;
    const answer = { ...turn.answers[side], isAwaited: true };
    const said = [...answer.said, { results }];
    change(at, side, () => ({ ...answer, said }));
    request(at, side, [
      ...historyOf(turns.slice(0, at), side),
      { role: 'user', content: turn.question },
      ...messagesOf({ ...answer, said }),
    ]);
  };

  return (
    <section class="panel" aria-label="Chat">
      <div class="chat-models">
        {(['left', 'right'] as const).map((side, index) => (
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
      {found !== undefined && (
        <OpeningNote opening={found?.opening ?? null} isSent={isSent} onSend={setSent} />
      )}
      <ol class="chat" aria-live="polite">
        {turns.map(({ question, answers }, at) => (
          <li key={at}>
            <p class="chat-question model-text">{question}</p>
            <div class="chat-answers">
              {sides.map(
                (side) =>
                  models[side] !== '' && (
                    <Answer
                      key={side}
                      answer={answers[side]}
                      model={models[side]}
                      onResults={(results) => goOn(at, side, results)}
                    />
                  ),
              )}
            </div>
          </li>
        ))}
      </ol>
      <form
        class="chat-form"
        onSubmit={(event) => {
          event.preventDefault();
          const field = event.currentTarget.elements.namedItem('question');
          if (!(field instanceof HTMLTextAreaElement) || isBusy) return;
          const question = field.value.trim() === '' ? (example ?? '') : field.value;
          if (question === '') return;
          ask(question);
          field.value = '';
        }}
      >
        <textarea
          class="field"
          name="question"
          rows={2}
          aria-label="Question to both"
          placeholder={example ?? 'A question to both'}
          onKeyDown={(event) => {
            if (event.key !== 'Enter' || event.shiftKey) return;
            event.preventDefault();
            event.currentTarget.form?.requestSubmit();
          }}
        />
        <NumberField
          title="Temperature"
          range={{ min: 0, max: 2, step: 0.1 }}
          value={settings.temperature}
          onInput={(temperature) => setSettings({ ...settings, temperature })}
        />
        <NumberField
          title="Tokens"
          range={{ min: 1, step: 1 }}
          value={settings.maxTokens}
          onInput={(maxTokens) => setSettings({ ...settings, maxTokens })}
        />
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

interface NumberFieldProps {
  title: string;
  range: { min: number; max?: number; step: number };
  value: number;
  onInput: (value: number) => void;
}

function NumberField({ title, range, value, onInput }: NumberFieldProps) {
  return (
    <label>
      <span class="muted">{title} </span>
      <input
        class="field"
        type="number"
        {...range}
        value={value}
        onInput={({ currentTarget }) =>
          onInput(Math.max(range.min, currentTarget.valueAsNumber || range.min))
        }
      />
    </label>
  );
}
