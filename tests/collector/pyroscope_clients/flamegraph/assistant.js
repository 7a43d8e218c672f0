// Grafana's assistant is a service of its own, which the component offers only where it runs.
export const OpenAssistantButton = () => null;
