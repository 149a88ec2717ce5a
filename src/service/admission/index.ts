export { Admission, type AdmittedChat, type LoadFigures } from './admission.ts';
export { BusyError } from './busy-error.ts';
export { resolveLimits, type ServiceLimits } from './limits.ts';
