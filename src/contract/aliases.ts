/** The vendor's names that deployed clients send, and the interface's own names for the same fields. */
export const chatFieldAliases = { vllm_xargs: 'engine_xargs' } as const;
export const configFieldAliases = { kimi_k2_tau: 'vendor_k2_tau' } as const;
export const projectHeader = 'Compat-Project';
export const projectHeaderAlias = 'OpenAI-Project';
