import type { ParsedChatCompletionRequest } from '../../contract/index.ts';
import { invalidField } from '../errors.ts';

/** Refuses, by name, fields that mean nothing beside the rest of their request or in this service. */
export function checkCombinations(
  request: ParsedChatCompletionRequest,
  { priorityScheduling }: { priorityScheduling: boolean },
): void {
  if ((request.top_logprobs ?? 0) > 0 && request.logprobs !== true)
    throw invalidField(['top_logprobs'], 'needs logprobs: true', request.top_logprobs);
  // What asks for nothing is as good as absent: clients send an empty object whatever `stream` says.
  if (Object.values(request.stream_options ?? {}).includes(true) && request.stream !== true)
    throw invalidField(['stream_options'], 'needs stream: true', request.stream_options);
  if ((request.length_penalty ?? 1) !== 1 && !request.use_beam_search)
    throw invalidField(['length_penalty'], 'needs use_beam_search: true', request.length_penalty);
  if ((request.priority ?? 0) !== 0 && !priorityScheduling)
    throw invalidField(
      ['priority'],
      'must be 0: this service does not schedule by priority; its operator can turn that on',
      request.priority,
    );
  if (request.function_call && request.tool_choice !== undefined && request.tool_choice !== 'none')
    throw invalidField(
      ['function_call'],
      `"${request.function_call}" is the older form of tool_choice, which asks for something else; send tool_choice alone`,
      request.function_call,
    );
}
