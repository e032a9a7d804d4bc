import { Redis, type RedisOptions } from 'ioredis';
import type { Clock, Timer } from '../clock.js';
import type { Randomness } from '../randomness.js';
import { UnavailableError } from '../unavailable.error.js';
import { isAbsence, isTimeout, wasCut } from './redis-failures.js';
import { RedisScripts } from './redis-scripts.js';

type NetStream = Redis['stream'];

const COMMAND_TIMEOUT_MS = 2_000;
/** How long a call waits for a connection that was lost just now. After that, calls fail at once. */
const RECONNECT_GRACE_MS = 500;
/** How often a call whose connection broke under it is sent again. */
const RESENDS = 1;
const FIRST_RETRY_MS = 20;
const LONGEST_RETRY_MS = 2_000;
/** The subscriber sends nothing by itself, so only this tells that its peer is gone. */
const HEARTBEAT_MS = 5_000;
const CLOSE_TIMEOUT_MS = 1_000;

export interface RedisConnectionOptions {
  /** `redis://` or `rediss://` (TLS), with user, password and database number where needed. */
  url: string;
  /** How long `open` waits for the server. */
  startTimeoutMs: number;
  /** What to do when the server may evict keys: refuse to start, or call `onWarning`. */
  onEviction: 'refuse' | 'warn';
  onWarning(message: string): void;
}

/**
 * The two connections of a pod to Redis: one for commands, one for subscriptions. Both reconnect for ever.
 *
 * Every call is bounded: it answers within COMMAND_TIMEOUT_MS, twice that and the grace when its connection broke under
 * it, and fails at once while Redis has been away for longer than the grace. A call whose connection broke under it is
 * sent again on the next one, before anything newer, so whatever is sent here must be safe to repeat. A call that its
 * caller was told has failed is never sent again behind the caller's back; a connection that swallowed one is replaced.
 * (ioredis' own resending has neither bound: it sends commands again whose callers gave up long ago. Its socketTimeout
 * outlives the socket it was meant for and cuts the next one. So neither is used.)
 */
export class RedisConnection {
  readonly scripts: RedisScripts;
  private readonly commands: Redis;
  readonly subscriber: Redis;
  private readonly reconnectListeners: (() => void)[] = [];
  private readonly waiting = new Set<() => void>();
  /** Since when the connection for commands does not stand; undefined while it does. */
  private downSinceMs: number | undefined;
  private wasReady = false;
  /** The stream that is corked until this turn of the event loop is over. */
  private gathering: NetStream | null = null;
  private closed = false;
  private lastError: unknown;
  private readonly heartbeat: Timer;

  /** Opens both connections and waits for them. @throws UnavailableError after `startTimeoutMs` */
  static async open(options: RedisConnectionOptions, clock: Clock, randomness: Randomness): Promise<RedisConnection> {
    const connection = new RedisConnection(options.url, clock, randomness);
    try {
      await connection.waitForStart(options.startTimeoutMs);
      await connection.checkEviction(options);
    } catch (error) {
      await connection.close();
      if (!(error instanceof UnavailableError)) throw error;
      throw new UnavailableError('redis', `${error.message}. Check REDIS_URL and that the server runs`, {
        cause: error,
      });
    }
    return connection;
  }

  private constructor(
    url: string,
    private readonly clock: Clock,
    randomness: Randomness,
  ) {
    const options: RedisOptions = {
      commandTimeout: COMMAND_TIMEOUT_MS,
      connectTimeout: COMMAND_TIMEOUT_MS,
      // Commands under way fail as soon as the connection breaks; `run` sends them again.
      maxRetriesPerRequest: 0,
      enableOfflineQueue: false,
      autoResubscribe: false,
      // Its timer outlives the connection and keeps a process that is done from ending.
      disconnectTimeout: 100,
      keepAlive: HEARTBEAT_MS,
      maxLoadingRetryTime: 1_000,
      retryStrategy: (attempt) => backOffMs(attempt) * (0.5 + randomness.fraction() / 2),
      // A primary that was demoted: connect again, by now the name leads to the new one.
      reconnectOnError: (error) => error.message.startsWith('READONLY'),
    };
    this.downSinceMs = clock.monotonicMs();
    this.commands = new Redis(url, { ...options, connectionName: 'butler-commands' });
    this.subscriber = new Redis(url, { ...options, connectionName: 'butler-subscriber' });
    for (const redis of [this.commands, this.subscriber]) {
      redis.on('error', (error) => (this.lastError = error));
    }
    this.commands.on('ready', () => this.onReady());
    this.commands.on('close', () => (this.downSinceMs ??= this.clock.monotonicMs()));
    this.heartbeat = clock.every(HEARTBEAT_MS, () => this.beat());
    this.scripts = new RedisScripts(this);
  }

  get ready(): boolean {
    return this.commands.status === 'ready' && this.commands.stream.writable;
  }

  /** Calls back after each time that the connection for commands was lost and stands again. */
  onReconnected(listener: () => void): void {
    this.reconnectListeners.push(listener);
  }

  /**
   * Runs one command, or several issued in the same tick. It must be safe to repeat. While the connection stands it is
   * issued before `run` returns, so calls made in one tick are written in that order.
   * @throws UnavailableError
   */
  run<T>(command: (redis: Redis) => Promise<T>): Promise<T> {
    return this.ready ? this.attempt(command, RESENDS) : this.whenReady().then(() => this.attempt(command, RESENDS));
  }

  /** Whether Redis answers within `timeoutMs`. Never rejects. */
  ping(timeoutMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = this.clock.after(timeoutMs, () => resolve(false));
      this.run((redis) => redis.ping())
        .then(
          () => resolve(true),
          () => resolve(false),
        )
        .finally(() => timer.cancel());
    });
  }

  /** Closes both connections; takes CLOSE_TIMEOUT_MS at most, whatever state they are in. */
  async close(): Promise<void> {
    if (this.closed) return;
    this.closed = true;
    this.heartbeat.cancel();
    for (const wake of this.waiting) wake();
    await Promise.all([this.commands, this.subscriber].map((redis) => this.closeOne(redis)));
  }

  /** What is issued in one turn of the event loop leaves in one packet, whoever issues it. */
  private gather(stream: NetStream): void {
    if (this.gathering === stream) return;
    this.gathering = stream;
    stream.cork();
    setImmediate(() => {
      this.gathering = null;
      stream.uncork();
    });
  }

  private async attempt<T>(command: (redis: Redis) => Promise<T>, resends: number): Promise<T> {
    const { stream } = this.commands;
    this.gather(stream);
    try {
      return await command(this.commands);
    } catch (error) {
      if (resends > 0 && wasCut(error)) {
        await this.whenReady(error);
        return this.attempt(command, resends - 1);
      }
      if (isTimeout(error)) stream.destroy();
      throw isAbsence(error) ? this.unavailable(error) : error;
    }
  }

  /** Resolves in the order of the calls, when the connection stands; rejects when the grace is over. */
  private whenReady(cause?: unknown): Promise<void> {
    if (this.ready) return Promise.resolve();
    const leftMs = this.graceLeftMs();
    if (leftMs <= 0) return Promise.reject(this.unavailable(cause ?? this.lastError));
    return new Promise((resolve, reject) => {
      const wake = (): void => {
        timer.cancel();
        this.waiting.delete(wake);
        if (this.ready) resolve();
        else reject(this.unavailable(cause ?? this.lastError));
      };
      const timer = this.clock.after(leftMs, wake);
      this.waiting.add(wake);
    });
  }

  private graceLeftMs(): number {
    const nowMs = this.clock.monotonicMs();
    this.downSinceMs ??= nowMs;
    return this.closed ? 0 : this.downSinceMs + RECONNECT_GRACE_MS - nowMs;
  }

  private onReady(): void {
    this.downSinceMs = undefined;
    for (const wake of this.waiting) wake();
    if (this.wasReady) for (const listener of this.reconnectListeners) listener();
    this.wasReady = true;
  }

  private beat(): void {
    const { stream } = this.subscriber;
    if (this.subscriber.status !== 'ready') return;
    this.subscriber.ping().catch(() => stream.destroy());
  }

  private async waitForStart(timeoutMs: number): Promise<void> {
    let timer: Timer | undefined;
    const tooLate = new Promise<never>((_, reject) => {
      timer = this.clock.after(timeoutMs, () => reject(this.unavailable(this.lastError)));
    });
    try {
      await Promise.race([Promise.all([whenStarted(this.commands), whenStarted(this.subscriber)]), tooLate]);
    } finally {
      timer?.cancel();
    }
  }

  private async checkEviction({ onEviction, onWarning }: RedisConnectionOptions): Promise<void> {
    const info = await this.run((redis) => redis.info('memory'));
    const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1];
    if (policy === 'noeviction') return;
    const message = policy
      ? `Redis has the maxmemory-policy ${policy}, which drops keys when memory is short: set it to noeviction`
      : 'Redis does not tell its maxmemory-policy: make sure that it is noeviction';
    if (policy && onEviction === 'refuse') throw new Error(message);
    onWarning(message);
  }

  private closeOne(redis: Redis): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        timer.cancel();
        resolve();
      };
      const timer = this.clock.after(CLOSE_TIMEOUT_MS, () => {
        redis.stream.destroy();
        resolve();
      });
      redis.once('end', end);
      // `quit` lets the answers under way arrive; a connection that does not stand has none, and one that waits for its
      // next attempt ends without saying so.
      if (redis.status === 'ready') return void redis.quit().catch(() => redis.disconnect());
      const silent = redis.status === 'reconnecting' || redis.status === 'end';
      redis.disconnect();
      if (silent) end();
    });
  }

  private unavailable(cause: unknown): UnavailableError {
    const { message } = (cause ?? {}) as Partial<Error>;
    return new UnavailableError('redis', `Redis is unavailable: ${message || 'not connected'}`, { cause });
  }
}

function backOffMs(attempt: number): number {
  return Math.min(FIRST_RETRY_MS * 2 ** Math.min(attempt - 1, 10), LONGEST_RETRY_MS);
}

function whenStarted(redis: Redis): Promise<void> {
  return redis.status === 'ready' ? Promise.resolve() : new Promise((resolve) => redis.once('ready', resolve));
}
