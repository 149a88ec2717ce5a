export type { EndpointModel, ModelRequest, StreamedAnswer, WholeAnswer } from './endpoint-model.ts';
export { closeEndpoints, type ModelEndpoint, openEndpoint } from './open-endpoint.ts';
