/**
 * Attribute names of the OpenTelemetry conventions for generative AI, as of 2026-11 in
 * github.com/open-telemetry/semantic-conventions-genai. They are in development there and may change, so the code has
 * them only here.
 */
export const genAi = {
  operationName: 'gen_ai.operation.name',
  providerName: 'gen_ai.provider.name',
  requestModel: 'gen_ai.request.model',
  requestTemperature: 'gen_ai.request.temperature',
  requestMaxTokens: 'gen_ai.request.max_tokens',
  requestSeed: 'gen_ai.request.seed',
  responseModel: 'gen_ai.response.model',
  responseId: 'gen_ai.response.id',
  responseFinishReasons: 'gen_ai.response.finish_reasons',
  usageInputTokens: 'gen_ai.usage.input_tokens',
  usageOutputTokens: 'gen_ai.usage.output_tokens',
  toolName: 'gen_ai.tool.name',
  toolCallId: 'gen_ai.tool.call.id',
  /** The environment's name. */
  agentName: 'gen_ai.agent.name',
  /** The trajectory's id. */
  conversationId: 'gen_ai.conversation.id',
  /** Conversations, only with `captureContent`. */
  inputMessages: 'gen_ai.input.messages',
  outputMessages: 'gen_ai.output.messages',
  /** Read from traces of others, like `toolDefinitions`: spans of martingale have neither. */
  systemInstructions: 'gen_ai.system_instructions',
  toolDefinitions: 'gen_ai.tool.definitions',
  evaluationName: 'gen_ai.evaluation.name',
  evaluationScore: 'gen_ai.evaluation.score.value',
  cacheReadTokens: 'gen_ai.usage.cache_read.input_tokens',
  tokenType: 'gen_ai.token.type',
} as const;

/** Stable convention: the class or code of an error. */
export const errorType = 'error.type';

/** Stable conventions for HTTP servers. */
export const http = {
  requestMethod: 'http.request.method',
  route: 'http.route',
  statusCode: 'http.response.status_code',
  urlPath: 'url.path',
  urlScheme: 'url.scheme',
} as const;

/** martingale's own attributes. */
export const attribute = {
  runId: 'martingale.run.id',
  environment: 'martingale.environment',
  /** `entity/project/name`, without a step. */
  modelName: 'martingale.model.name',
  baseModel: 'martingale.model.base',
  step: 'martingale.step',
  groupIndex: 'martingale.group.index',
  rolloutIndex: 'martingale.rollout.index',
  /** `completed`, `failed` or `cancelled`. */
  rolloutOutcome: 'martingale.rollout.outcome',
  /** Reward of a rollout, or mean reward of a step's completed rollouts. */
  reward: 'martingale.reward',
  /** Mean of a step's metric `success`. */
  success: 'martingale.success',
  rewardName: 'martingale.reward.name',
  policyVersion: 'martingale.policy.version',
  modelId: 'martingale.model.id',
  jobId: 'martingale.job.id',
  /** `rl` or `sft`. */
  jobKind: 'martingale.job.kind',
} as const;

/** Names of spans, outermost first. */
export const spanName = {
  run: 'run',
  optimization: 'optimization',
  evaluation: 'evaluation',
  step: 'step',
  group: 'group',
  rollout: 'rollout',
  /** The form that the conventions give to model calls. */
  modelCall: (model: string) => `chat ${model}`,
  /** The form that the conventions give to tool calls. */
  tool: (name: string) => `execute_tool ${name}`,
  reward: 'reward',
  job: 'job',
  /** Spans of the service: sampling for one request, and a training job. */
  inference: 'inference',
  trainingJob: 'training_job',
} as const;
