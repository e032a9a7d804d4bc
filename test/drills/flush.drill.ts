import type { Drill } from './harness/drill.js';
import { type Form, LONG, SHORT } from './harness/form.js';
import { some } from './harness/row.js';

interface FlushForm extends Form {
  times: number;
  everyMs: number;
}

export const flush: Drill<FlushForm> = {
  name: 'flush',
  tells: 'FLUSHALL again and again, while turns are stopped: nothing is lost, and every stop that was answered holds',
  servers: {},
  pods: 3,
  // So few sessions that a message often waits for the one before.
  long: { ...LONG, sessions: 30, stopped: 0.2, times: 30, everyMs: 2_000 },
  short: { ...SHORT, sessions: 12, stopped: 0.3, times: 4, everyMs: 1_500 },

  async play(field, { times, everyMs }) {
    for (let time = 1; time <= times; time++) {
      await field.servers.flush();
      field.say(`FLUSHALL ${time} of ${times}`);
      await field.rest(everyMs);
    }
    const { stops } = field.load;
    const answered = (state: string): number => stops.filter((stop) => !stop.already && stop.state === state).length;
    return () => [
      some('stops that met a turn that waited', answered('stopped')),
      some('stops that met a turn that ran', answered('stop_requested')),
    ];
  },
};
