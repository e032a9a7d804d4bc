export { AgentsModule } from './agents.module.js';
export { LocalAgent } from './local/local-agent.js';
export { type Machine, thisMachine } from './local/machine.js';
export { type OwnSession, OwnSessions } from './local/own-sessions.js';
export { CALL_LOG_FILE } from './script/call-log.js';
export { ScriptAgent, type ScriptOptions } from './script/script-agent.js';
