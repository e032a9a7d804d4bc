import type { Drill } from './harness/drill.js';
import { type Form, LONG, SHORT, SILENCE_LIMIT_MS } from './harness/form.js';
import type { Field } from './harness/field.js';
import { none, type Row } from './harness/row.js';

interface OutageForm extends Form {
  outageMs: number;
  /** Load behind it. */
  afterMs: number;
}

/** The pods sit an outage out: nobody ends, nobody is to be restarted. */
function satOut(field: Field): () => Row[] {
  const pods = [...field.fleet.pods];
  return () => [
    none(
      'pods that ended',
      pods.flatMap(({ name, alive }) => (alive ? [] : [name])),
    ),
    none('looks at liveness that failed', field.balancer.livenessFailures),
  ];
}

type Given = Pick<Drill<OutageForm>, 'name' | 'tells' | 'servers' | 'long' | 'short'>;

function outage(given: Given, breakIt: (field: Field, outageMs: number) => Promise<void>): Drill<OutageForm> {
  return {
    ...given,
    pods: 3,
    async play(field, { outageMs, afterMs }) {
      const judge = satOut(field);
      await breakIt(field, outageMs);
      await field.rest(afterMs);
      return judge;
    },
  };
}

/** An outage is sat out; what comes behind it is no longer than elsewhere. */
const of = (form: Form, outageMs: number, afterMs: number): OutageForm => ({
  ...{ ...form, outageMs, afterMs },
  silenceLimitMs: outageMs + form.silenceLimitMs,
});
const longOf = (outageMs: number, afterMs: number): OutageForm => of(LONG, outageMs, afterMs);
const shortOf = (outageMs: number, afterMs = 3_000): OutageForm => of(SHORT, outageMs, afterMs);

export const ledgerStop = outage(
  {
    name: 'ledger-stop',
    tells: 'the database is stopped under load: no 202 without a row, and the same pods go on when it is back',
    servers: { ownLedger: true },
    long: longOf(20_000, 20_000),
    short: shortOf(3_000),
  },
  async (field, outageMs) => {
    field.say('the database stops');
    await field.servers.restartLedger(outageMs);
    field.say('the database is back');
  },
);

export const redisRestart = outage(
  {
    name: 'redis-restart',
    tells: 'Redis ends under load and comes back empty: everything goes on by itself',
    servers: {},
    long: longOf(5_000, 20_000),
    short: shortOf(1_000),
  },
  async (field, outageMs) => {
    field.say('Redis stops');
    await field.servers.restartRedis(outageMs);
    field.say('Redis is back, empty');
  },
);

const stallOf = (which: 'redis' | 'ledger', server: string, long: OutageForm, short: OutageForm): Drill<OutageForm> =>
  outage(
    {
      name: `${which}-stall`,
      tells: `nothing passes between the pods and ${server} for a while, and nobody is told: everything goes on by itself`,
      servers: { onWires: true },
      long,
      short,
    },
    async (field, outageMs) => {
      const wire = field.servers.wires![which];
      field.say(`the wires to ${server} fall silent`);
      wire.goSilent();
      await field.rest(outageMs);
      wire.goOn();
      field.say('they go on');
    },
  );

export const redisStall = stallOf('redis', 'Redis', longOf(5_000, 20_000), shortOf(2_500));
export const ledgerStall = stallOf('ledger', 'the database', longOf(5_000, 20_000), shortOf(2_500));

const DELAY_MS = 50;
export const slowNetwork = outage(
  {
    name: 'slow-network',
    tells: `everything between pods and servers takes ${DELAY_MS} ms more, either way: all comes later and well`,
    servers: { onWires: true },
    long: { ...longOf(30_000, 10_000), ratePerS: 20, silenceLimitMs: SILENCE_LIMIT_MS },
    short: { ...shortOf(4_000, 1_500), ratePerS: 8, silenceLimitMs: SILENCE_LIMIT_MS },
  },
  async (field, outageMs) => {
    const wires = Object.values(field.servers.wires!);
    for (const wire of wires) wire.delay(DELAY_MS);
    field.say('the network is slow');
    await field.rest(outageMs);
    for (const wire of wires) wire.delay(0);
    field.say('it is quick again');
  },
);
