import { AsyncLocalStorage } from 'node:async_hooks';
import type { Clock, Timer } from '../clock.js';
import { UnavailableError } from '../unavailable.error.js';
import { RunAlone } from './grouping.js';
import type { Outcome } from './transaction-group.js';
import type { Tx } from './tx.js';

/** A group holds at most so many works and, unless it is a single one, so many bytes. */
const GROUP_MAX_WORKS = 128;
const GROUP_MAX_BYTES = 1024 * 1024;
/** So many groups are under way at once: while one waits for its COMMIT, the next is being asked and written. */
const GROUPS_AT_ONCE = 2;
/** So many works at once run by themselves because they have to wait for a row; each takes a connection. */
const ALONE_MAX = 4;
/** So many works may wait, in number and in bytes. */
const WAITING_MAX = 10_000;
const WAITING_MAX_BYTES = 64 * 1024 * 1024;
/** So long a work waits in line until it is begun, as a call does for a connection. */
const LINE_WAIT_MS = 5_000;

type Work<T> = (tx: Tx) => Promise<T>;
/** Runs works in one transaction; see `TransactionGroup`. */
type Transact = <T>(works: readonly Work<T>[], skipLocked: boolean) => Promise<Outcome<T>[]>;

/** How a work goes with others. */
export interface GroupOptions {
  /** Works of one lane are run in the order in which they came. */
  lane: string;
  /** About how much it will write. */
  bytes: number;
}

interface Entry extends GroupOptions {
  work: Work<unknown>;
  /** Until when it waits in line, on the monotonic clock. */
  untilMs: number;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/**
 * Commits the works of many callers together: while groups are under way, what arrives joins the next.
 *
 * GROUPS_AT_ONCE groups, no lane in two of them. Beside them, at most ALONE_MAX works run by themselves: those that have
 * to wait for a row of somebody else's, so that they delay no others, and those of a group that failed for another reason
 * than the database being away, so that one bad work fails alone. While a lane's work runs by itself, the lane's later
 * ones line up behind it. What is not begun within LINE_WAIT_MS is refused: where those before it hang, or wait for rows
 * that nobody frees, whoever waits behind them has an answer, too.
 */
export class GroupCommit {
  private waiting: Entry[] = [];
  private waitingCount = 0;
  private waitingBytes = 0;
  private gathering = false;
  private groups = 0;
  private readonly lanesInGroups = new Set<string>();
  /** Lanes that run by themselves, with what waits in them. */
  private readonly lanes = new Map<string, Entry[]>();
  private readonly lanesToRun: string[] = [];
  private alone = 0;
  /** Stands only while something waits. */
  private lineTimer: Timer | null = null;
  /** What runs here belongs to no caller: it must not look as if it were inside the first caller's transaction. */
  private readonly outside = AsyncLocalStorage.snapshot();

  constructor(
    private readonly transact: Transact,
    private readonly clock: Clock,
  ) {}

  /** @throws UnavailableError when too much waits already, or it has waited for LINE_WAIT_MS: nothing is begun then */
  join<T>(work: Work<T>, options: GroupOptions): Promise<T> {
    if (this.waitingCount >= WAITING_MAX || this.waitingBytes + options.bytes > WAITING_MAX_BYTES) {
      const message = `${this.waitingCount} transactions wait for the database already`;
      return Promise.reject(new UnavailableError('database', message));
    }
    return new Promise<T>((resolve, reject) => {
      this.waitingCount++;
      this.waitingBytes += options.bytes;
      const untilMs = this.clock.monotonicMs() + LINE_WAIT_MS;
      const entry: Entry = { ...options, work, untilMs, resolve: resolve as (value: unknown) => void, reject };
      const lane = this.lanes.get(entry.lane);
      if (lane) this.lineUp(lane, entry);
      else this.line(entry);
    });
  }

  private line(entry: Entry): void {
    this.waiting.push(entry);
    if (this.gathering) return;
    this.gathering = true;
    // What is called in the same tick as the first one joins its group.
    this.outside(() =>
      queueMicrotask(() => {
        this.gathering = false;
        this.startGroups();
      }),
    );
  }

  private startGroups(): void {
    while (this.groups < GROUPS_AT_ONCE) {
      const group = this.nextGroup();
      if (group.length === 0) break;
      void this.runGroup(group);
    }
    this.watchLines();
  }

  private async runGroup(group: Entry[]): Promise<void> {
    this.groups++;
    for (const { lane } of group) this.lanesInGroups.add(lane);
    await this.commit(group);
    for (const { lane } of group) this.lanesInGroups.delete(lane);
    this.groups--;
    this.startGroups();
  }

  private nextGroup(): Entry[] {
    const group: Entry[] = [];
    const left: Entry[] = [];
    let bytes = 0;
    for (const entry of this.waiting) {
      const isFull = group.length === GROUP_MAX_WORKS || (group.length > 0 && bytes + entry.bytes > GROUP_MAX_BYTES);
      // Once a work is left out, all that came later in its lane are left out by the same condition or follow it.
      if (isFull || this.lanesInGroups.has(entry.lane)) left.push(entry);
      else {
        bytes += entry.bytes;
        group.push(entry);
      }
    }
    this.waiting = left;
    return group;
  }

  private async commit(group: Entry[]): Promise<void> {
    try {
      const works = group.map(({ work }) => work);
      const outcomes = await this.transact(works, true);
      for (const [at, entry] of group.entries()) {
        const outcome = outcomes[at]!;
        if ('error' in outcome && outcome.error instanceof RunAlone) this.goAlone(entry);
        else this.settle(entry, outcome);
      }
    } catch (error) {
      if (error instanceof UnavailableError) for (const entry of group) this.settle(entry, { error });
      else for (const entry of group) this.goAlone(entry);
    }
  }

  private settle(entry: Entry, outcome: Outcome<unknown>): void {
    this.waitingCount--;
    this.waitingBytes -= entry.bytes;
    if ('error' in outcome) entry.reject(outcome.error);
    else entry.resolve(outcome.value);
  }

  private goAlone(entry: Entry): void {
    entry.untilMs = this.clock.monotonicMs() + LINE_WAIT_MS;
    const lane = this.lanes.get(entry.lane);
    if (lane) return this.lineUp(lane, entry);
    // Those of the lane that are in line already follow it.
    const behind = this.waiting.filter((other) => other.lane === entry.lane);
    for (const other of behind) this.waiting.splice(this.waiting.indexOf(other), 1);
    this.lanes.set(entry.lane, [entry, ...behind]);
    this.lanesToRun.push(entry.lane);
    if (this.alone === ALONE_MAX) return this.watchLines();
    this.alone++;
    this.outside(() => void this.runLanes());
  }

  private lineUp(lane: Entry[], entry: Entry): void {
    lane.push(entry);
    this.watchLines();
  }

  private async runLanes(): Promise<void> {
    for (let name = this.lanesToRun.shift(); name !== undefined; name = this.lanesToRun.shift()) {
      const lane = this.lanes.get(name)!;
      for (let entry = lane.shift(); entry; entry = lane.shift()) this.settle(entry, await this.runOne(entry));
      this.lanes.delete(name);
    }
    this.alone--;
    this.watchLines();
  }

  /** Everything that is not begun: in line for a group, and behind others of its lane. */
  private get lines(): Entry[][] {
    return [this.waiting, ...this.lanes.values()].filter((line) => line.length > 0);
  }

  /** One timer, for whoever is due first; none while nobody waits. */
  private watchLines(): void {
    const { lines, clock } = this;
    if (lines.length > 0) {
      const waitMs = (): number => Math.min(...lines.flat().map(({ untilMs }) => untilMs)) - clock.monotonicMs();
      this.lineTimer ??= clock.after(Math.max(0, Math.ceil(waitMs())), () => this.refuseOverdue());
    } else {
      this.lineTimer?.cancel();
      this.lineTimer = null;
    }
  }

  private refuseOverdue(): void {
    this.lineTimer = null;
    const nowMs = this.clock.monotonicMs();
    const message = `others hold it up: nothing of this was begun for ${LINE_WAIT_MS} ms`;
    for (const line of this.lines) {
      const overdue = line.filter(({ untilMs }) => untilMs <= nowMs);
      for (const entry of overdue) {
        line.splice(line.indexOf(entry), 1);
        this.settle(entry, { error: new UnavailableError('database', message) });
      }
    }
    // Where nobody waits any more and nothing runs, whoever comes next goes with the others again.
    const toRun = this.lanesToRun.splice(0);
    for (const name of toRun) {
      if (this.lanes.get(name)!.length > 0) this.lanesToRun.push(name);
      else this.lanes.delete(name);
    }
    this.watchLines();
  }

  private async runOne({ work }: Entry): Promise<Outcome<unknown>> {
    try {
      const [outcome] = await this.transact([work], false);
      return outcome!;
    } catch (error) {
      return { error };
    }
  }
}
