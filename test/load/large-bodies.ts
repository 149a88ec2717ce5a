import { Buffer } from 'node:buffer';
import { special } from '../support/scripted-engine.ts';

export interface LargeBody {
  bytes: number;
  /** The body in pieces of about 64 KiB. Each call starts again. */
  pieces: () => Iterable<Uint8Array>;
}

export interface LargeJob {
  modelId: string;
  /** The body is at least this long. */
  bytes: number;
  /** Sampled tokens of each trajectory, each with its log-probability. */
  tokens: number;
  trajectoriesOfGroup: number;
  /** Further fields of the request. */
  fields?: object;
}

const pieceBytes = 65_536;

/** The body of a training job or log of this many bytes, generated without holding it in memory. */
export function largeJob({ modelId, bytes, tokens, trajectoriesOfGroup, fields = {} }: LargeJob): LargeBody {
  const trajectories = [0, 1].map((reward) => trajectoryText(reward, tokens));
  const group = Array.from({ length: trajectoriesOfGroup }, (_, index) => trajectories[index % 2]).join(',');
  const groupText = Buffer.from(`{"trajectories":[${group}]}`);
  const head = Buffer.from(
    `${JSON.stringify({ model_id: modelId, ...fields }).slice(0, -1)},"trajectory_groups":[`,
  );
  const tail = Buffer.from(']}');
  const groups = Math.max(1, Math.ceil((bytes - head.length) / (groupText.length + 1)));
  const comma = Buffer.from(',');
  return {
    bytes: head.length + tail.length + groups * (groupText.length + 1) - 1,
    *pieces() {
      yield head;
      for (let index = 0; index < groups; index++) {
        if (index > 0) yield comma;
        for (let at = 0; at < groupText.length; at += pieceBytes)
          yield groupText.subarray(at, at + pieceBytes);
      }
      yield tail;
    },
  };
}

function trajectoryText(reward: number, tokens: number): string {
  const ids = Array.from({ length: tokens }, (_, index) => 97 + ((index * 7 + reward) % 26));
  const content = ids.map((id, index) => ({
    token: String.fromCharCode(id),
    logprob: -((index % 97) + 1) / 128.7,
    bytes: [id],
    top_logprobs: [],
  }));
  return JSON.stringify({
    messages_and_choices: [
      { role: 'user', content: 'Say something long, with "quotes", \\ and ünïcödé.' },
      {
        index: 0,
        finish_reason: 'stop',
        message: { role: 'assistant', content: String.fromCharCode(...ids.slice(0, 1000)) },
        token_ids: [...ids.slice(0, -1), special.end],
        logprobs: { content },
        sampling: { temperature: 1, top_p: 1, top_k: 0, min_p: 0, constraint: null },
      },
    ],
    reward,
    metrics: { turns: 1 },
  });
}

/** Training data of this many bytes: JSON lines, one conversation each. */
export function largeUpload(bytes: number, lineBytes: number): LargeBody {
  const line = Buffer.from(
    `${JSON.stringify({
      messages: [
        { role: 'user', content: 'hi' },
        { role: 'assistant', content: 'x'.repeat(lineBytes) },
      ],
    })}\n`,
  );
  const lines = Math.max(1, Math.ceil(bytes / line.length));
  return {
    bytes: lines * line.length,
    *pieces() {
      for (let index = 0; index < lines; index++) yield line;
    },
  };
}
