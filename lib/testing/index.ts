export { startEmbeddedServer, type EmbeddedServer, type EmbeddedServerOptions } from '../database/embedded-server.js';
export { runPages } from './run-pages.js';
export { runJob, type RunEnd, type RunJobOptions } from './run-job.js';
export { InMemoryPageQueue } from './in-memory-page-queue.js';
export { pageQueueConformance, type ConformanceOptions, type PageQueueCheck } from './page-queue-conformance.js';
