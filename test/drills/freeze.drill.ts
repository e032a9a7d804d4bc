import type { Drill } from './harness/drill.js';
import { type Form, LONG, SHORT } from './harness/form.js';
import { none, some, spread, within } from './harness/row.js';
import { takeovers } from './harness/takeovers.js';

interface FreezeForm extends Form {
  frozenMs: number;
  afterMs: number;
  leaseTtlMs: number;
  sweepMs: number;
}

/** For a machine that does other things too. */
const SLACK_MS = 3_000;

export const freeze: Drill<FreezeForm> = {
  name: 'freeze',
  tells: 'SIGSTOP of a pod for longer than its lease, then SIGCONT: its turns have moved, and it touches none of them',
  servers: {},
  pods: 3,
  long: { ...LONG, silenceLimitMs: 40_000, frozenMs: 75_000, afterMs: 10_000, leaseTtlMs: 30_000, sweepMs: 5_000 },
  short: {
    ...SHORT,
    settings: { ...SHORT.settings, LEASE_TTL_MS: '3000', LEASE_RENEW_MS: '1000' },
    frozenMs: 7_000,
    afterMs: 1_500,
    leaseTtlMs: 3_000,
    sweepMs: 1_000,
  },

  async play(field, { frozenMs, afterMs, leaseTtlMs, sweepMs }) {
    const pod = field.busiestPod();
    field.say(`SIGSTOP to ${pod.name}`);
    await pod.freeze();
    const gone = { pod: pod.name, atMs: Date.now() };
    await field.rest(frozenMs);
    const wokenNs = process.hrtime.bigint();
    pod.thaw();
    field.say(`SIGCONT to ${pod.name}`);
    await field.rest(afterMs);
    return (reading) => {
      const moved = takeovers(reading, gone);
      const { p50, max } = spread(moved.map(({ tookMs }) => tookMs ?? Infinity));
      const boots = new Map(moved.map(({ turnId, boot }) => [turnId, boot]));
      const begun = reading.calls.filter(({ turn, boot, startNs }) => startNs > wokenNs && boots.get(turn) === boot);
      return [
        some('turns that ran on the frozen pod', moved.length),
        within('from SIGSTOP to the next owner, p50', p50, {}),
        within('from SIGSTOP to the next owner, max', max, { limitMs: leaseTtlMs + sweepMs + SLACK_MS }),
        none(
          'steps of these turns that it began after it woke',
          begun.map(({ turn, key }) => `${turn} ${key}`),
        ),
        none('frozen pods that did not live on', pod.alive ? [] : [pod.name]),
      ];
    };
  },
};
