import type { Content, Event, EventDraft, Kind, LiveDelta, Mode, Ref, RunOutcome, SessionKey } from '#protocol';
import {
  Database,
  DATABASE_DEFAULTS,
  Drain,
  migrate,
  openDatabase,
  Randomness,
  type Row,
  Settings,
  type SqlValue,
  SystemClock,
  SystemRandomness,
  type Tx,
  UnavailableError,
  type Work,
} from '#platform';
import { LiveEvents, SqlEventLedger } from '#event-ledger';
import { Lease } from '#session-lock';
import { SqlTurns, type TurnRow } from '#turn-lifecycle';
import { Agent, type TurnContext, type TurnRunner } from '#turn-runner';
import { type ComposedPod, composePod, lonelyCoordination } from './composition.js';
import { HeldSteps } from './held-steps.js';
import { ManualClock } from './manual-clock.js';
import { ALL_SCHEMAS } from './test-database.js';

/** What watchers would have been told. */
class RecordedLive extends LiveEvents {
  readonly events: Event[] = [];
  readonly deltas: LiveDelta[] = [];

  committed(_session: SessionKey, events: readonly Event[]): void {
    this.events.push(...events);
  }

  delta(_session: SessionKey, delta: LiveDelta): void {
    this.deltas.push(delta);
  }

  follow(): Promise<() => void> {
    return Promise.resolve(() => undefined);
  }
}

/** A database that a test takes away and gives back. */
class OutageDatabase extends Database {
  down = false;
  readonly dialect = this.inner.dialect;

  constructor(private readonly inner: Database) {
    super(inner['clock']);
  }

  query<R = Row>(sql: string, values?: readonly SqlValue[]): Promise<R[]> {
    return this.up(() => this.inner.query<R>(sql, values));
  }

  execute(sql: string, values?: readonly SqlValue[]): Promise<number> {
    return this.up(() => this.inner.execute(sql, values));
  }

  protected commitWith<T>(work: Work<T>): Promise<T> {
    return this.up(() => this.inner['commitWith'](work));
  }

  ping(timeoutMs: number): Promise<boolean> {
    return this.inner.ping(timeoutMs);
  }

  close(): Promise<void> {
    return this.inner.close();
  }

  private async up<T>(run: () => Promise<T>): Promise<T> {
    if (this.down) throw new UnavailableError('database', 'a test has taken the database away');
    return run();
  }
}

/** The turn runner of one or more pods over one SQLite ledger in memory, with a clock that stands still. */
export class TurnStage {
  readonly session: SessionKey = { account: 'acc', sessionId: 's' };
  readonly clock = new ManualClock();
  readonly steps = new HeldSteps();
  readonly live = new RecordedLive();
  readonly drain = new Drain();
  readonly randomness: Randomness = new SystemRandomness();
  readonly ledger: SqlEventLedger;
  readonly turns: SqlTurns;
  private readonly settings = Object.assign(new Settings(), { turnMaxAttempts: 3, stopToolWaitMs: 5000 });
  private readonly coordination = lonelyCoordination(this.clock, this.settings);
  readonly records = this.coordination.records;

  private constructor(readonly database: OutageDatabase) {
    this.ledger = new SqlEventLedger(database);
    this.turns = new SqlTurns(database);
  }

  static async open(): Promise<TurnStage> {
    const options = { ...DATABASE_DEFAULTS, url: 'sqlite::memory:' };
    // The database's step points are those of the stage, which is made on top of it.
    let stage: TurnStage | null = null;
    const steps = new HeldSteps();
    steps.reach = (name) => stage?.steps.reach(name);
    const open = await openDatabase(options, ALL_SCHEMAS, {
      clock: new SystemClock(),
      randomness: new SystemRandomness(),
      steps,
    });
    await migrate(open, options);
    stage = new TurnStage(new OutageDatabase(open.database));
    return stage;
  }

  close(): Promise<void> {
    return this.database.close();
  }

  /** A runner of a pod of its own. `agent` is what answers every message. */
  runner(agent: (turn: TurnContext) => Promise<void>, drain = this.drain): TurnRunner {
    return this.pod(agent, drain).runner;
  }

  /** The gates and the runner of a pod of its own. */
  pod(agent: (turn: TurnContext) => Promise<void>, drain = this.drain): ComposedPod {
    const { database, live, clock, randomness, steps, settings } = this;
    const parts = { ...this.coordination, agent: new FunctionAgent(agent) };
    return composePod({ ...{ database, live, clock, randomness, steps, drain, settings }, ...parts });
  }

  /** A lease that is trusted for 30 s from now. Its epoch is claimed by its first write. */
  lease(epoch: number, podId = `pod-${epoch}`, session = this.session): Lease {
    const owner = { podId, boot: 'boot', epoch };
    return new Lease(session, owner, this.clock, this.clock.monotonicMs() + 30_000);
  }

  /** One attempt at a turn by a pod of its own. */
  run(
    agent: (turn: TurnContext) => Promise<void>,
    { lease = this.lease(1), turnId = 't', signal = new AbortController().signal }: Partial<RunOptions> = {},
  ): Promise<RunOutcome> {
    return this.runner(agent).run(lease, { turnId, generation: 1 }, signal);
  }

  /** Accepts a message, as intake would. */
  async accept(
    turnId = 't',
    content: Content = 'hello',
    { mode = 'enqueue', kind = 'user', session = this.session }: Partial<Sent> = {},
  ): Promise<void> {
    await this.database.transaction(async (tx) => {
      const initiator = 'ann';
      const head = await this.ledger.openHead(tx, session);
      const place = { seq: head.nextSeq, nowMs: head.nowMs };
      const data = { content, mode, kind, initiator };
      this.produce(tx, head, { type: 'message.accepted', turn: { turnId, generation: 1 }, data });
      const sent = { mode, kind, initiator, metadata: null, digest: 'd' };
      this.turns.insert(tx, { ...session, turnId, parent: null, path: turnId, ...sent }, place);
    });
  }

  /** Requests the stop of a turn, as gate 1 would. */
  async stop(turnId = 't', stop: { by: string; reason?: string } = { by: 'ann' }): Promise<void> {
    const { session } = this;
    await this.database.transaction(async (tx) => {
      const row = (await this.turns.lock(tx, session.account, turnId))!;
      const head = (await this.ledger.lockHead(tx, session))!;
      const state = this.turns.move(tx, row, 'stop', { nowMs: head.nowMs, stop });
      const turn = { turnId, generation: row.generation };
      this.produce(
        tx,
        head,
        state === 'stopped'
          ? { type: 'turn.stopped', turn, data: { ...stop, gate: 'stop' } }
          : { type: 'turn.stop_requested', turn, data: stop },
      );
    });
  }

  /** Another pod claims the session. */
  async claim(epoch: number): Promise<void> {
    const pod = { podId: `pod-${epoch}`, boot: 'boot' };
    await this.ledger.appendGrouped(this.session, {
      id: this.randomness.id(),
      writer: { kind: 'claim', epoch, pod },
      events: [],
    });
  }

  events(): Promise<Event[]> {
    return this.ledger.events(this.session, 0, 10_000);
  }

  /** The ledger's events as `type` or, where it helps, `type detail`, without those of acceptance and claims. */
  async story(): Promise<string[]> {
    return (await this.events())
      .filter(({ type }) => type !== 'message.accepted' && type !== 'owner.changed')
      .map(tell);
  }

  row(turnId = 't'): Promise<TurnRow | null> {
    return this.turns.find(this.database, this.session.account, turnId);
  }

  private produce(tx: Tx, head: Parameters<SqlEventLedger['append']>[1], event: EventDraft): void {
    this.ledger.append(tx, head, { id: this.randomness.id(), writer: { kind: 'producer' }, events: [event] });
  }
}

interface RunOptions {
  lease: Lease;
  turnId: string;
  signal: AbortSignal;
}

interface Sent {
  mode: Mode;
  kind: Kind;
  session: SessionKey;
}

class FunctionAgent extends Agent {
  constructor(readonly run: (turn: TurnContext) => Promise<void>) {
    super();
  }
}

function tell(event: Event): string {
  switch (event.type) {
    case 'model.message':
      return `model.message ${event.data.step} ${event.data.text}`.trimEnd();
    case 'tool.call':
      return `tool.call ${event.data.callId}`;
    case 'tool.result':
      return `tool.result ${event.data.callId} ${event.data.outcome}`;
    case 'turn.yielded':
      return `turn.yielded ${event.data.reason}`;
    case 'turn.stopped':
      return `turn.stopped ${event.data.gate}`;
    case 'turn.failed':
      return `turn.failed ${event.data.code}`;
    case 'turn.resumed':
      return `turn.resumed ${event.data.voids}`;
    default:
      return event.type;
  }
}

/** A turn's reference in its first generation. */
export function firstTry(turnId: string): Ref {
  return { turnId, generation: 1 };
}
