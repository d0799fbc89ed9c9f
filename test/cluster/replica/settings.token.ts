/** Injects the `ReplicaSettings` of this process. */
export const SETTINGS = Symbol('replica settings');
