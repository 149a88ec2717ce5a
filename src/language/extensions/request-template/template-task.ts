/** What the process that renders templates is asked, and what it answers. */
export interface TemplateTask {
  source: string;
  variables: Record<string, unknown>;
}

export type TemplateAnswer = { type: 'ready' } | TemplateResult;

export type TemplateResult =
  | { type: 'text'; text: string }
  /** `reason` is for the template's author. */
  | { type: 'failed'; reason: string };

/** Bounds of a template that comes with a request. */
export const templateLimits = {
  /** Largest source, in bytes of UTF-8. */
  sourceBytes: 64 * 1024,
  /** For reading the template and rendering it. */
  timeoutMs: 1000,
  /** Longest text it may write, in UTF-16 code units. */
  characters: 2 ** 20,
  /** Heap of its process. One operation may make a string beyond it (2^29 characters at most) before it is ended. */
  heapMegabytes: 64,
};
