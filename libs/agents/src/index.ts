export { AgentsModule } from './agents.module.js';
export { type OwnSession, OwnSessions } from './local/own-sessions.js';
