/**
 * Limits of requests. Every field of every request takes its bounds from here. A value above its bound is refused with
 * a 422 that names the field, its size and the bound. Lengths of texts are in UTF-16 code units.
 */
export const requestLimits = {
  /** Nesting depth of arrays and objects in the JSON of a body. */
  depth: 1000,
  /** Members of one object in the JSON of any body. */
  membersOfObject: 16_384,
  /** Values in the JSON of a body that is read in one piece: arrays, objects and what is in them. */
  values: 4_194_304,
  /** A text written by a person or a model: the content of a message, the arguments of a call, a description. */
  text: 2 ** 24,
  /** Tokens of a prompt or a reply. */
  tokens: 2 ** 20,
  /** The largest token id, and the bound of other counts that fit 32 bits. */
  maxToken: 2 ** 31 - 1,
  /** A name or id that the caller chooses: of a speaker, a called function, a call, a metric. */
  name: 1024,
  /** A model's name with entity, project and step, or a base model's name. */
  model: 1024,
  /** Elements of a list without a bound of its own. */
  list: 1024,
  /** Entries of an object whose names the caller chooses. */
  entries: 1024,
  /** Characters of JSON of a value of any form. */
  json: 2 ** 20,
  /** Options of training, losses and rewards. With larger numbers, weights would leave their range. */
  number: 1e9,
} as const;

/** Limits of a chat request. */
export const chatLimits = {
  choices: 128,
  topLogprobs: 20,
  promptLogprobs: 20,
  stopStrings: 64,
  stopStringLength: 1024,
  stopTokens: 1024,
  biases: 1024,
  allowedTokens: 32_768,
  /** Tokens reported with alternatives: choices times tokens times (1 + top_logprobs). */
  reported: 524_288,
  badWords: 256,
  badWordLength: 256,
  processors: 16,
  engineArguments: 64,
  /** Characters of a text in `engine_xargs`, and elements of a list there. */
  engineArgumentLength: 4096,
  messages: 8192,
  /** Parts of the content of one message. */
  parts: 4096,
  /** Calls of one message. */
  calls: 1024,
  role: 64,
  tools: 1024,
  toolDescription: 65_536,
  /** Characters of JSON of a tool's parameters, a JSON schema or a structural tag. */
  schema: 262_144,
  /** Characters of a regular expression. */
  regex: 65_536,
  /** Characters of a grammar. */
  grammar: 131_072,
  /** Texts in `choice`, and characters of each. */
  alternatives: 16_384,
  alternativeLength: 65_536,
  whitespacePattern: 1024,
  documents: 1024,
  /** Characters of a template, and also its bytes. */
  template: 65_536,
  templateVariables: 256,
  templateVariableName: 256,
  requestId: 256,
  user: 1024,
  /** Characters of `prompt_cache_key` and `safety_identifier`. */
  hint: 1024,
  modalities: 16,
  cacheSalt: 1024,
  metadata: 64,
  metadataName: 256,
  metadataLength: 4096,
} as const;

/** Limits of a request to train or to log. */
export const trainingLimits = {
  groups: 16_384,
  /** Characters of the id of a stored group. */
  groupId: 128,
  /** Messages and choices of one history. */
  messages: 16_384,
  /** Trajectories of one group. */
  trajectories: 4096,
  /** Additional histories of one trajectory. */
  histories: 1024,
  metrics: 1024,
  metadata: 1024,
  metadataLength: 65_536,
  /** Lines of a log, and characters of each. */
  logs: 16_384,
  logLength: 2 ** 20,
  exceptions: 1024,
  /** Protocols in the `exchanges` of a trajectory. */
  exchanges: 16,
  /** Characters of one token. */
  token: 4096,
  /** Alternatives reported with a log-probability. */
  topLogprobs: 1024,
  split: 64,
  /** Learning rates of an SFT job, one for each batch. */
  learningRates: 131_072,
  /** Checkpoints that one request deletes. */
  steps: 10_000,
  url: 4096,
  timestamp: 64,
} as const;
