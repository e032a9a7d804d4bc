import {
  type ChannelListener,
  Channels,
  Database,
  type RawTx,
  type Row,
  type SqlValue,
  UnavailableError,
  type Work,
} from '#platform';
import type { Fault, FaultKind } from './plan.js';
import type { Servers } from './servers.js';
import { ProcessClock } from './world.js';

/** How long a call waits for an answer, and for a connection that is away. */
const CALL_TIMEOUT_MS = 2_000;
const CONNECT_WAIT_MS = 500;
/** Of the next transactions, how many meet a stall that waits for one. */
const HELD_BEFORE_COMMIT = 0.4;

/** One pod's connections: every call travels to its server and its answer back, and each can go wrong on its way. */
export class Wires {
  readonly channels: PodChannels;
  readonly database: PodDatabase;
  /** Counts the connections to Redis. */
  connection = 1;
  private readonly armed: Fault[] = [];
  private readonly reconnectListeners: (() => void)[] = [];
  private noticesLostUntilMs = 0;

  constructor(
    readonly pod: string,
    readonly servers: Servers,
  ) {
    this.channels = new PodChannels(this);
    this.database = new PodDatabase(this);
  }

  /** The next call, transaction or notice that it is for will meet it. */
  arm(fault: Fault): void {
    this.armed.push(fault);
  }

  /** What nothing has met so far will not be met any more. */
  disarm(): void {
    this.armed.length = 0;
  }

  loseNotices(ms: number): void {
    this.noticesLostUntilMs = this.servers.world.nowMs + ms;
  }

  onReconnected(listener: () => void): void {
    this.reconnectListeners.push(listener);
  }

  /** The connection to Redis breaks; soon another one stands. */
  async breakRedis(): Promise<void> {
    this.connection++;
    await this.travel('connects to Redis');
    for (const listener of this.reconnectListeners) listener();
  }

  /** The same port, whose calls travel. */
  redis<T extends object>(name: string, port: T): T {
    return new Proxy(port, {
      get: (target, property): unknown => {
        const member: unknown = Reflect.get(target, property);
        if (typeof member !== 'function') return member;
        return (...args: unknown[]) =>
          this.callRedis(`${name}.${String(property)}`, args, () =>
            Promise.resolve((member as (...args: unknown[]) => unknown).apply(target, args)),
          );
      },
    });
  }

  async callRedis<T>(label: string, args: readonly unknown[], act: () => Promise<T>): Promise<T> {
    const { servers } = this;
    await this.travel(label);
    if (!servers.redisIsUp) return this.fail('redis', label, CONNECT_WAIT_MS);
    const fault = this.next('redis_request_lost', 'redis_reply_lost', 'redis_call_resent', 'redis_call_late');
    if (fault?.kind === 'redis_request_lost') return this.fail('redis', label, CALL_TIMEOUT_MS);
    if (fault?.kind === 'redis_call_late') {
      // What Redis had received when its caller gave up.
      servers.world.after('wire', CALL_TIMEOUT_MS + fault.ms, `${this.pod} ${label}, late`, () => void act());
      return this.fail('redis', label, CALL_TIMEOUT_MS);
    }
    let answer = await act();
    if (label === 'locks.acquire' && this.next('redis_flushed_behind_acquire')) servers.store.clear();
    if (fault?.kind === 'redis_reply_lost') return this.fail('redis', label, CALL_TIMEOUT_MS);
    if (fault?.kind === 'redis_call_resent') {
      await this.breakRedis();
      answer = await act();
    }
    this.countReplies(label, args, answer);
    await this.travel(`${label} is answered`);
    return answer;
  }

  /** Which of these faults is armed, for one use. */
  next(...kinds: FaultKind[]): Fault | undefined {
    const at = this.armed.findIndex(({ kind }) => kinds.includes(kind));
    const [fault] = at < 0 ? [] : this.armed.splice(at, 1);
    if (fault) this.met(fault.kind, fault.ms);
    return fault;
  }

  met(kind: FaultKind, ms = 0): void {
    this.servers.onMet(ms);
    this.servers.coverage.count('fault', kind);
    this.servers.world.note(this.pod, `meets ${kind}`);
  }

  get isFrozen(): boolean {
    return this.servers.world.isFrozen(this.pod);
  }

  /** The process stands still for `ms`; what it has sent arrives afterwards. */
  freeze(ms: number): void {
    const { world } = this.servers;
    world.freeze(this.pod);
    world.after('world', ms, `${this.pod} goes on`, () => world.thaw(this.pod));
  }

  travel(label: string): Promise<void> {
    return this.servers.world.wait(this.pod, this.servers.travelMs(), label);
  }

  async fail(what: 'redis' | 'database', label: string, afterMs: number): Promise<never> {
    await this.servers.world.wait(this.pod, afterMs, `${label} fails`);
    if (what === 'redis') void this.breakRedis();
    throw new UnavailableError(what, `the simulation let ${label} fail`);
  }

  /** What a message to a listener of this pod meets on its way. */
  deliver(message: string, hear: () => void): void {
    const { world } = this.servers;
    if (world.nowMs < this.noticesLostUntilMs) return this.met('notices_lost');
    const fault = this.next('notice_doubled', 'notice_late');
    const afterMs = this.servers.travelMs() + (fault?.kind === 'notice_late' ? fault.ms : 0);
    world.after(this.pod, afterMs, `hears ${message.slice(0, 100)}`, hear);
    if (fault?.kind === 'notice_doubled') {
      world.after(this.pod, this.servers.travelMs() * 3, `hears again ${message.slice(0, 100)}`, hear);
    }
  }

  private countReplies(label: string, args: readonly unknown[], answer: unknown): void {
    const { coverage } = this.servers;
    const answers: unknown[] = label === 'locks.renew' || label === 'queue.present' ? (answer as unknown[]) : [answer];
    for (const each of answers) coverage.count('reply', `${label}${mannerOf(label, args)}: ${replyOf(label, each)}`);
  }
}

function mannerOf(label: string, args: readonly unknown[]): string {
  if (label === 'locks.release') return ` ${String(args[2])}`;
  if (label === 'queue.restore') return 'nonce' in (args[1] as object) ? ' by a filler' : ' by an owner';
  return '';
}

function replyOf(label: string, answer: unknown): string {
  if (Array.isArray(answer)) return answer.length > 0 ? 'some' : 'none';
  if (typeof answer !== 'object' || answer === null) return String(answer);
  const { kind, owner } = answer as { kind?: string; owner?: unknown };
  if (label === 'queue.enqueue' && kind === 'queued') return owner ? 'queued, owned' : 'queued, no owner';
  return kind ?? 'something';
}

/** Notices, heard only while the pod is subscribed. */
class PodChannels extends Channels {
  private readonly topics = new Map<string, Set<ChannelListener>>();
  private readonly ends = new Map<string, () => void>();
  private readonly lostListeners: (() => void)[] = [];
  private readonly resubscribedListeners: (() => void)[] = [];
  private stands = true;
  private losses = 0;

  constructor(private readonly wires: Wires) {
    super();
  }

  override async publish(channel: string, message: string): Promise<void> {
    await this.wires.travel('publishes');
    if (this.wires.servers.redisIsUp) this.wires.servers.store.publish(channel, message);
  }

  override async subscribe(channel: string, listener: ChannelListener): Promise<() => void> {
    const listeners = this.topics.get(channel) ?? new Set();
    this.topics.set(channel, listeners.add(listener));
    await this.wires.travel('subscribes');
    if (this.stands) this.listen(channel);
    await this.wires.travel('is subscribed');
    return () => {
      listeners.delete(listener);
      if (listeners.size > 0 || this.topics.get(channel) !== listeners) return;
      this.topics.delete(channel);
      this.endOf(channel);
    };
  }

  override subscribers(channels: readonly string[]): Promise<{ connection: number; counts: number[] }> {
    const { servers, connection } = this.wires;
    return this.wires.callRedis('channels.subscribers', [], async () => ({
      connection,
      counts: channels.map((channel) => servers.store.subscribers(channel)),
    }));
  }

  override subscribed(prefix: string): Promise<string[]> {
    const { store } = this.wires.servers;
    return this.wires.callRedis('channels.subscribed', [], async () => store.subscribed(prefix));
  }

  override onLost(listener: () => void): void {
    this.lostListeners.push(listener);
  }

  override onResubscribed(listener: () => void): void {
    this.resubscribedListeners.push(listener);
  }

  /** The process is gone, and so are its connections. */
  die(): void {
    this.stands = false;
    for (const channel of [...this.ends.keys()]) this.endOf(channel);
  }

  /** The subscription breaks, the pod notices after a part of `ms`, and is heard again after the rest of it. */
  async lose(ms: number): Promise<void> {
    const { world } = this.wires.servers;
    const loss = ++this.losses;
    this.die();
    await world.wait(this.wires.pod, ms * world.random.fraction(), 'notices that nobody hears it');
    // A later loss tells its own story.
    if (loss !== this.losses) return;
    for (const listener of this.lostListeners) listener();
    await world.wait(this.wires.pod, ms * world.random.fraction(), 'subscribes again');
    while (!this.wires.servers.redisIsUp) await world.wait(this.wires.pod, CONNECT_WAIT_MS, 'tries to subscribe');
    if (loss !== this.losses) return;
    this.stands = true;
    for (const channel of this.topics.keys()) this.listen(channel);
    await this.wires.travel('is heard again');
    if (loss === this.losses) for (const listener of this.resubscribedListeners) listener();
  }

  private listen(channel: string): void {
    if (this.ends.has(channel) || !this.topics.has(channel)) return;
    const end = this.wires.servers.store.subscribe(channel, (message) =>
      this.wires.deliver(message, () => {
        for (const listener of this.topics.get(channel) ?? []) listener(message);
      }),
    );
    this.ends.set(channel, end);
  }

  private endOf(channel: string): void {
    this.ends.get(channel)?.();
    this.ends.delete(channel);
  }
}

/** The ledger's database as one pod reaches it. Transactions are atomic; their answers may be lost. */
class PodDatabase extends Database {
  readonly dialect;

  constructor(private readonly wires: Wires) {
    super(new ProcessClock(wires.servers.world, wires.pod));
    this.dialect = wires.servers.database.dialect;
  }

  query<R = Row>(sql: string, values?: readonly SqlValue[]): Promise<R[]> {
    return this.call('ledger.query', () => this.wires.servers.database.query<R>(sql, values));
  }

  execute(sql: string, values?: readonly SqlValue[]): Promise<number> {
    return this.call('ledger.execute', () => this.wires.servers.database.execute(sql, values));
  }

  protected commitWith<T>(work: Work<T>): Promise<T> {
    const { random } = this.wires.servers.world;
    const stall = random.chance(HELD_BEFORE_COMMIT) ? this.wires.next('stall_before_commit') : undefined;
    if (stall && !this.wires.isFrozen) this.wires.freeze(stall.ms);
    return this.call('ledger.transaction', async () => {
      const { database } = this.wires.servers;
      const fault = this.wires.next('commit_unanswered', 'commit_repeated', 'transaction_repeated');
      if (fault?.kind === 'transaction_repeated') await this.rollBack(work);
      const result = await database['commitWith'](work);
      if (fault?.kind === 'commit_unanswered') return this.wires.fail('database', 'the COMMIT', CALL_TIMEOUT_MS);
      if (fault?.kind !== 'commit_repeated') return result;
      await this.wires.travel('repeats a transaction');
      this.wires.servers.touched = true;
      return database['commitWith']((raw) => work(uncertain(raw)));
    });
  }

  ping(): Promise<boolean> {
    return Promise.resolve(this.wires.servers.ledgerIsUp);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  private async call<T>(label: string, act: () => Promise<T>): Promise<T> {
    await this.wires.travel(label);
    if (!this.wires.servers.ledgerIsUp) return this.wires.fail('database', label, CONNECT_WAIT_MS);
    if (this.wires.next('ledger_unreached')) return this.wires.fail('database', label, CALL_TIMEOUT_MS);
    this.wires.servers.touched = true;
    const answer = await act();
    await this.wires.travel(`${label} is answered`);
    return answer;
  }

  /** As after a deadlock: whatever the work has done is undone, and it is begun again. */
  private async rollBack<T>(work: Work<T>): Promise<void> {
    const undone = new Error('rolled back');
    const attempt = this.wires.servers.database['commitWith'](async (raw) => {
      await work(raw);
      throw undone;
    });
    await attempt.catch((error: unknown) => {
      if (error !== undone) throw error;
    });
    await this.wires.travel('begins a transaction again');
    this.wires.servers.touched = true;
  }
}

/** The same transaction, told that an earlier COMMIT got no answer. */
function uncertain(raw: RawTx): RawTx {
  return {
    dialect: raw.dialect,
    uncertain: true,
    query: (sql, values) => raw.query(sql, values),
    execute: (sql, values) => raw.execute(sql, values),
    queryAll: (queries) => raw.queryAll(queries),
  };
}
