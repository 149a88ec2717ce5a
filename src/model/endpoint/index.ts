export { closeEndpoints, openEndpoint } from './open-endpoint.ts';
