export { closeEndpoints, type ModelEndpoint, openEndpoint } from './open-endpoint.ts';
export type { EndpointModel, ModelRequest, StreamedAnswer, WholeAnswer } from './session.ts';
