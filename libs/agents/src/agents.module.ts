import { Global, Module } from '@nestjs/common';
import { Clock, Settings } from '#platform';
import { Agent } from '#turn-runner';
import { LocalAgent } from './local/local-agent.js';
import { thisMachine } from './local/machine.js';
import { OwnSessions } from './local/own-sessions.js';
import { monotonicNs } from './script/monotonic-ns.js';
import { ScriptAgent } from './script/script-agent.js';

/** The agent that AGENT names. The importing app provides `OwnSessions`, globally. */
@Global()
@Module({
  providers: [
    {
      provide: Agent,
      inject: [Settings, Clock, OwnSessions],
      useFactory: (settings: Pick<Settings, 'agent' | 'scriptDir'>, clock: Clock, sessions: OwnSessions): Agent => {
        if (settings.agent !== 'script') return new LocalAgent(clock, thisMachine, sessions);
        const exit = (code: number): never => process.exit(code);
        return new ScriptAgent(clock, { dir: settings.scriptDir, exit, nowNs: monotonicNs });
      },
    },
  ],
  exports: [Agent],
})
export class AgentsModule {}
