import type { Event } from '#protocol';
import type { Drill } from './harness/drill.js';
import { type Form, LONG, SHORT, SILENCE_LIMIT_MS } from './harness/form.js';
import { type Reading, timeOf } from './harness/reading.js';
import { none, type Row, some, spread, within } from './harness/row.js';

interface DeployForm extends Form {
  /** Between one replacement and the next. */
  betweenMs: number;
}

export const rollingDeploy: Drill<DeployForm> = {
  name: 'rolling-deploy',
  tells: 'each pod is replaced in turn, as a cluster does it: nobody notices',
  servers: {},
  pods: 3,
  long: { ...LONG, betweenMs: 5_000 },
  short: { ...SHORT, betweenMs: 300 },

  async play(field, { betweenMs }) {
    const { fleet, balancer, load } = field;
    const exits: string[] = [];
    const replaced = [...fleet.pods];
    for (const old of replaced) {
      const [fresh] = await fleet.start();
      await balancer.serves(fresh!);
      field.say(`${fresh!.name} serves; SIGTERM to ${old.name}`);
      const { code, signal, tookMs } = await fleet.terminate(old);
      field.say(`${old.name} ended with ${code ?? signal} after ${Math.round(tookMs)} ms`);
      if (code !== 0) exits.push(`${old.name} ended with ${code ?? signal}`);
      await field.rest(betweenMs);
    }
    return (reading) => [
      none('posts that failed', load.failures.posts > 0 ? [`${load.failures.posts}`] : []),
      none('pods that did not end with code 0', exits),
      none(
        'pods that went without having told the balancer',
        replaced.flatMap(({ name }) => (balancer.saidUnready.has(name) ? [] : [name])),
      ),
      ...handovers(reading),
    ];
  },
};

function handovers(reading: Reading): Row[] {
  const waits: number[] = [];
  const unyielded: string[] = [];
  for (const events of reading.sessions.values()) {
    for (const event of events) {
      if (event.type !== 'turn.resumed') continue;
      const left = leftBefore(events, event);
      if (left) waits.push(timeOf(event) - timeOf(left));
      else unyielded.push(`${event.turnId} attempt ${event.data.attempt}`);
    }
  }
  const { p50, max } = spread(waits);
  return [
    some('turns handed over', waits.length),
    none('attempts that ended otherwise than by a handover', unyielded),
    within('from a turn given up to its going on, p50', p50, { aimMs: 500 }),
    within('from a turn given up to its going on, max', max, { aimMs: 2_000, limitMs: SILENCE_LIMIT_MS }),
  ];
}

/** The turn's own word, between its last attempt and this one, that a draining pod has given it up. */
function leftBefore(events: readonly Event[], resumed: Event): Event | undefined {
  const before = events.slice(0, resumed.seq - 1).filter(({ turnId }) => turnId === resumed.turnId);
  const last = before.findLast(({ type }) => ['turn.started', 'turn.resumed', 'turn.yielded'].includes(type));
  return last?.type === 'turn.yielded' && last.data.reason === 'drain' ? last : undefined;
}
