export const notDefault = () => () => undefined;
