import type { Drill } from './harness/drill.js';
import { type Form, LONG, SHORT, SILENCE_LIMIT_MS } from './harness/form.js';
import { none, some, spread, within } from './harness/row.js';
import { type Gone, takeovers } from './harness/takeovers.js';

interface KillForm extends Form {
  times: number;
  everyMs: number;
}

export const killStorm: Drill<KillForm> = {
  name: 'kill-storm',
  tells: 'kill -9 of any pod again and again, a new one starts in its place: its turns go on elsewhere at once',
  servers: {},
  pods: 3,
  long: { ...LONG, times: 12, everyMs: 5_000 },
  short: { ...SHORT, times: 3, everyMs: 2_500 },

  async play(field, { times, everyMs }) {
    const { fleet } = field;
    const killed: Gone[] = [];
    for (let time = 1; time <= times; time++) {
      const pod = field.anyPod();
      field.say(`kill -9 ${time} of ${times}: ${pod.name}`);
      killed.push({ pod: pod.name, atMs: Date.now() });
      await Promise.all([fleet.kill(pod), fleet.start(), field.rest(everyMs)]);
    }
    return (reading) => {
      const taken = killed.flatMap((gone) => takeovers(reading, gone));
      const { p50, p99, max } = spread(taken.map(({ tookMs }) => tookMs ?? Infinity));
      return [
        some('turns that ran on a pod that was killed', taken.length),
        none(
          'turns that nobody took over',
          taken.flatMap(({ turnId, tookMs }) => (tookMs === null ? [turnId] : [])),
        ),
        within('from the kill to the next owner, p50', p50, { aimMs: 500 }),
        within('from the kill to the next owner, p99', p99, { aimMs: 2_000 }),
        within('from the kill to the next owner, max', max, { aimMs: 2_000, limitMs: SILENCE_LIMIT_MS }),
      ];
    };
  },
};
