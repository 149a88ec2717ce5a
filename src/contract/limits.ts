/**
 * How much a request may carry. Every field of every request takes its bounds from here; what is above one is
 * refused with a 422 that names the field, its size and the bound. Lengths of texts are in UTF-16 code units.
 */
export const requestLimits = {
  /** Arrays and objects in each other in the JSON of a body. */
  depth: 1000,
  /** Arrays and objects in the JSON of a body that is read in one piece. */
  containers: 524_288,
  /** Members of all objects in it together. */
  members: 262_144,
  /** Members of one object in the JSON of any body: names take far longer to read than elements of a list. */
  membersOfObject: 16_384,
  /** Members and elements together. */
  values: 4_194_304,
  /** A text that a person or a model wrote: the content of a message, the arguments of a call, a description. */
  text: 2 ** 24,
  /** Tokens of a prompt or a reply. */
  tokens: 2 ** 20,
  /** The greatest number of a token, and other counts that fit 32 bits. */
  largestToken: 2 ** 31 - 1,
  /** A name or an id that the caller chose: of a speaker, a called function, a call, a metric. */
  name: 1024,
  /** A model's name with entity, project and step, or a base model's. */
  model: 1024,
  /** Elements of a list that nothing else says more of. */
  list: 1024,
  /** Entries of an object with names of the caller's own. */
  entries: 1024,
  /** JSON of a value that the caller forms freely, in characters. */
  json: 2 ** 20,
  /** Options of training, losses and rewards: larger numbers leave the range that weights are computed in. */
  figure: 1e9,
} as const;

/** How much a chat request may ask for. */
export const chatLimits = {
  choices: 128,
  topLogprobs: 20,
  promptLogprobs: 20,
  stopStrings: 64,
  stopStringLength: 1024,
  stopTokens: 1024,
  biases: 1024,
  allowedTokens: 32_768,
  /** Tokens reported with their alternatives: choices by tokens by (1 + top_logprobs). */
  reported: 524_288,
  badWords: 256,
  badWordLength: 256,
  processors: 16,
  engineArguments: 64,
  /** Of a text among the `engine_xargs`, or of a list among them. */
  engineArgumentLength: 4096,
  messages: 8192,
  /** Parts of the content of one message. */
  parts: 4096,
  /** Calls of one message. */
  calls: 1024,
  role: 64,
  tools: 1024,
  toolDescription: 65_536,
  /** JSON of the parameters of one tool, of a JSON schema or of a structural tag, in characters. */
  schema: 262_144,
  /** Characters of a regular expression. */
  regex: 65_536,
  /** Characters of a grammar. */
  grammar: 131_072,
  /** Texts to choose one from, and characters of each. */
  alternatives: 16_384,
  alternativeLength: 65_536,
  whitespacePattern: 1024,
  documents: 1024,
  /** Characters of a template; its bytes are bounded by the same number. */
  template: 65_536,
  templateVariables: 256,
  templateVariableName: 256,
  requestId: 256,
  user: 1024,
  /** Of `prompt_cache_key` and `safety_identifier`. */
  hint: 1024,
  modalities: 16,
  cacheSalt: 1024,
  metadata: 64,
  metadataName: 256,
  metadataLength: 4096,
} as const;

/** How much a request to train, or to log, may carry. */
export const trainingLimits = {
  groups: 16_384,
  /** Messages and choices of one history. */
  messages: 16_384,
  /** Of one group. */
  trajectories: 4096,
  /** Further conversations of one trajectory. */
  histories: 1024,
  metrics: 1024,
  metadata: 1024,
  metadataLength: 65_536,
  /** Lines of a log, and characters of each. */
  logs: 16_384,
  logLength: 2 ** 20,
  exceptions: 1024,
  /** Protocols that exchanges of a trajectory may name. */
  exchanges: 16,
  /** Text of one token. */
  token: 4096,
  /** Alternatives that a log-probability came with. */
  topLogprobs: 1024,
  split: 64,
  /** Learning rates of an SFT job, one for each batch. */
  learningRates: 131_072,
  /** Checkpoints that one request deletes. */
  steps: 10_000,
  url: 4096,
  timestamp: 64,
} as const;
