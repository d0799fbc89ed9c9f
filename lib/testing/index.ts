export { startEmbeddedServer, type EmbeddedServer, type EmbeddedServerOptions } from '../store/embedded-server.js';
