import { describe, expect, it, jest } from '@jest/globals';
import { KeyNames, type Ref, type RunOutcome, type SessionKey } from '#protocol';
import {
  Drain,
  memoryCoordination,
  MemoryStore,
  PodIdentity,
  PresumedDead,
  StepPoints,
  UnavailableError,
} from '#platform';
import type { EventLedger } from '#event-ledger';
import { MemoryMessageQueue, MemoryPartitionMarks } from '#message-queue';
import { type Lease, LeaseKeeper, MemorySessionLocks } from '#session-lock';
import { ManualClock } from '#test-kit';
import { PARTITIONS } from '#protocol';
import { ActorSupervisor } from './actor-supervisor.js';
import { PartitionFiller, TurnHandler } from './turn-handler.js';

const SESSION: SessionKey = { account: 'acc', sessionId: 'ses' };
const FACTS = { initiator: 'ann', parent: null };
const SETTINGS = {
  actorMaxActive: 2,
  actorIdleMs: 60_000,
  sweepIntervalMs: 5_000,
  leaseTtlMs: 30_000,
  leaseRenewMs: 10_000,
};

interface Running {
  ref: Ref;
  lease: Lease;
  signal: AbortSignal;
  end(outcome: RunOutcome): void;
}

/** Turns that end when the test says so. */
class HeldTurns extends TurnHandler {
  readonly running: Running[] = [];
  readonly seen: string[] = [];

  override run(lease: Lease, ref: Ref, signal: AbortSignal): Promise<RunOutcome> {
    this.seen.push(ref.turnId);
    return new Promise((resolve) => this.running.push({ ref, lease, signal, end: resolve }));
  }

  override async stopRequested(): Promise<void> {
    // None of them stops.
  }

  override woken(): void {
    // None of them waits.
  }

  override async look(): Promise<void> {
    // None of them stops.
  }

  /** Ends the one that has run longest. */
  end(outcome: RunOutcome = { kind: 'ended', state: 'completed' }): void {
    this.running.shift()!.end(outcome);
  }
}

/** Holds the actor at named points until the test lets it go on. */
class HeldSteps extends StepPoints {
  hold: string | null = null;
  private held: (() => void)[] = [];

  override reach(name: string): Promise<void> | undefined {
    return name === this.hold ? new Promise((resolve) => this.held.push(resolve)) : undefined;
  }

  release(): void {
    this.hold = null;
    for (const go of this.held.splice(0)) go();
  }
}

class Filled extends PartitionFiller {
  override ensureIntact(): Promise<void> {
    return Promise.resolve();
  }
}

async function shared() {
  const clock = new ManualClock();
  const store = new MemoryStore(clock);
  const keys = new KeyNames('t:');
  const marks = new MemoryPartitionMarks(store, keys);
  const all = Array.from({ length: PARTITIONS }, (_, at) => at);
  await marks.finishFilling(await marks.beginFilling(all, 'n'), 'n');
  return { clock, store, keys };
}

async function startPod(podId = 'a', given?: Awaited<ReturnType<typeof shared>>, actorMaxActive = 2) {
  const { clock, store, keys } = given ?? (await shared());
  const pod = new PodIdentity(podId, 'boot');
  const locks = new MemorySessionLocks(store, keys, SETTINGS.leaseTtlMs);
  const queue = new MemoryMessageQueue(store, keys, { ...SETTINGS, turnRecordTtlMs: 1_000_000 }, clock);
  const keeper = new LeaseKeeper(pod, locks, clock, SETTINGS);
  const { channels } = memoryCoordination('t:', clock, store);
  const turns = new HeldTurns();
  const steps = new HeldSteps();
  const ledger = { ownerEpoch: jest.fn((_: SessionKey) => Promise.resolve(0)) };
  const dead = new PresumedDead(clock);
  const drain = new Drain();
  const supervisor = new ActorSupervisor(
    ...([
      { ...SETTINGS, actorMaxActive },
      pod,
      keys,
      clock,
      drain,
      steps,
      channels,
      keeper,
      locks,
      queue,
      ledger as unknown as EventLedger,
      turns,
      new Filled(),
      dead,
    ] as const),
  );
  await supervisor.start();
  const post = async (turnId: string, session = SESSION): Promise<void> => {
    const queued = await queue.enqueue(session, { turnId, generation: 1 }, FACTS);
    if (queued.kind === 'queued' && queued.owner === null) supervisor.offer(session);
    await clock.advance(0);
  };
  return { clock, store, keys, locks, queue, ledger, keeper, turns, steps, drain, dead, supervisor, post };
}

it('runs the messages of a session one at a time, in order', async () => {
  const pod = await startPod();
  await pod.post('t1');
  await pod.post('t2');
  await pod.post('t3');
  expect(pod.turns.seen).toEqual(['t1']);
  for (const seen of [
    ['t1', 't2'],
    ['t1', 't2', 't3'],
  ]) {
    pod.turns.end();
    await pod.clock.advance(0);
    expect(pod.turns.seen).toEqual(seen);
  }
  pod.turns.end();
  await pod.clock.advance(0);
  expect(await pod.queue.lists(SESSION)).toEqual({ pending: [], processing: null });
  expect(pod.supervisor.counts()).toEqual({ active: 0, idle: 1 });
});

it('serves a message that is queued just before the idle actor gives its lease back', async () => {
  const pod = await startPod();
  await pod.post('t1');
  pod.turns.end();
  pod.steps.hold = 'actor.releasing';
  await pod.clock.advance(SETTINGS.actorIdleMs + SETTINGS.sweepIntervalMs);
  await pod.post('t2');
  expect(pod.turns.seen).toEqual(['t1']);
  pod.steps.release();
  await pod.clock.advance(0);
  expect(pod.turns.seen).toEqual(['t1', 't2']);
});

it('serves a message that is queued just after the idle actor has given its lease back', async () => {
  const pod = await startPod();
  await pod.post('t1');
  pod.turns.end();
  const release = jest.spyOn(pod.locks, 'release');
  let posted: Promise<void> | undefined;
  release.mockImplementationOnce(async (...args) => {
    const answer = await pod.locks.release(...args);
    posted = pod.post('t2'); // the lock is free and the actor does not know it yet
    return answer;
  });
  await pod.clock.advance(SETTINGS.actorIdleMs + SETTINGS.sweepIntervalMs);
  await posted;
  await pod.clock.advance(0);
  expect(pod.turns.seen).toEqual(['t1', 't2']);
});

it('finds a message whose wake-up was lost at the next sweep', async () => {
  const pod = await startPod();
  await pod.post('t1');
  pod.turns.end();
  await pod.clock.advance(0);
  const wake = jest.spyOn(pod.supervisor as unknown as { hear(text: string): void }, 'hear').mockReturnValue();
  await pod.queue.enqueue(SESSION, { turnId: 't2', generation: 1 }, FACTS);
  await pod.clock.advance(0);
  expect(pod.turns.seen).toEqual(['t1']);
  wake.mockRestore();
  await pod.clock.advance(SETTINGS.sweepIntervalMs);
  expect(pod.turns.seen).toEqual(['t1', 't2']);
});

it('leaves nothing behind when an actor has been idle long enough', async () => {
  const pod = await startPod();
  await pod.post('t1');
  pod.turns.end();
  await pod.clock.advance(SETTINGS.actorIdleMs + SETTINGS.sweepIntervalMs);
  expect(pod.supervisor.counts()).toEqual({ active: 0, idle: 0 });
  expect(pod.keeper.size).toBe(0);
  expect(await pod.locks.holder(SESSION)).toBeNull();
});

it('puts the line in the ledger’s order when an envelope came too early', async () => {
  const pod = await startPod();
  await pod.post('late');
  pod.turns.end({
    kind: 'behind',
    live: [
      { turnId: 'early', generation: 1 },
      { turnId: 'late', generation: 1 },
    ],
  });
  await pod.clock.advance(0);
  expect(pod.turns.seen).toEqual(['late', 'early']);
  pod.turns.end();
  await pod.clock.advance(0);
  expect(pod.turns.seen).toEqual(['late', 'early', 'late']);
});

it('aborts the turn when the lease is lost, and touches nothing afterwards', async () => {
  const pod = await startPod();
  await pod.post('t1');
  const { signal, lease } = pod.turns.running[0]!;
  jest.spyOn(pod.locks, 'renew').mockRejectedValue(new UnavailableError('redis', 'away'));
  await pod.clock.advance(SETTINGS.leaseTtlMs);
  expect(signal.reason).toBeInstanceOf(UnavailableError);
  expect(lease.trusted).toBe(false);
  pod.turns.end({ kind: 'stale' });
  await pod.clock.advance(0);
  expect(pod.supervisor.counts()).toEqual({ active: 0, idle: 0 });
  expect(await pod.queue.lists(SESSION)).toEqual({ pending: [], processing: { turnId: 't1', generation: 1 } });
});

it('goes on after an outage that is shorter than the lease', async () => {
  const pod = await startPod();
  await pod.post('t1');
  const complete = jest.spyOn(pod.queue, 'complete').mockRejectedValue(new UnavailableError('redis', 'away'));
  pod.turns.end();
  await pod.clock.advance(1_000);
  complete.mockRestore();
  await pod.clock.advance(1_000);
  expect(await pod.queue.lists(SESSION)).toEqual({ pending: [], processing: null });
});

it('takes no more sessions than there is room for, and looks for waiting ones when room comes free', async () => {
  const pod = await startPod();
  for (const sessionId of ['one', 'two', 'three']) await pod.post(`t-${sessionId}`, { account: 'acc', sessionId });
  expect(pod.turns.seen).toEqual(['t-one', 't-two']);
  pod.turns.end();
  await pod.clock.advance(100);
  expect(pod.turns.seen).toEqual(['t-one', 't-two', 't-three']);
});

it('leaves a woken session to other pods while it is full', async () => {
  const together = await shared();
  const full = await startPod('a', together);
  await full.post('t1');
  full.turns.end();
  await full.clock.advance(0);
  for (const sessionId of ['one', 'two']) await full.post(`t-${sessionId}`, { account: 'acc', sessionId });
  const other = await startPod('b', together);
  await full.post('t2');
  await full.clock.advance(0);
  expect(other.turns.seen).toEqual(['t2']);
  expect((await full.locks.holder(SESSION))?.owner.podId).toBe('b');
});

it('hands a turn that yielded to another pod at once when it drains', async () => {
  const together = await shared();
  const leaving = await startPod('a', together);
  await leaving.post('t1');
  const other = await startPod('b', together);
  const left = leaving.supervisor.leaveAll(10_000);
  leaving.turns.end({ kind: 'yielded' });
  await leaving.clock.advance(100);
  await left;
  expect(other.turns.seen).toEqual(['t1']);
  expect(leaving.supervisor.counts()).toEqual({ active: 0, idle: 0 });
});

it('aborts a turn that does not yield within the grace', async () => {
  const pod = await startPod();
  await pod.post('t1');
  const { signal } = pod.turns.running[0]!;
  const left = pod.supervisor.leaveAll(10_000);
  await pod.clock.advance(9_000);
  expect(signal.aborted).toBe(false);
  await pod.clock.advance(1_100);
  expect(signal.aborted).toBe(true);
  pod.turns.end({ kind: 'yielded' });
  await pod.clock.advance(100);
  await left;
  expect(await pod.locks.holder(SESSION)).toBeNull();
});

it('stays away from a session whose claim was refused until the next sweep', async () => {
  const pod = await startPod();
  await pod.post('t1');
  pod.turns.end({ kind: 'claim_refused' });
  await pod.clock.advance(0);
  expect(pod.turns.seen).toEqual(['t1']);
  expect(await pod.locks.holder(SESSION)).toBeNull();
  await pod.clock.advance(SETTINGS.sweepIntervalMs);
  expect(pod.turns.seen).toEqual(['t1', 't1']);
});

describe('what a dead pod has left', () => {
  const HERD = Array.from({ length: 10 }, (_, at) => `t${at}`);
  const of = (turnId: string): SessionKey => ({ account: 'acc', sessionId: `ses-${turnId}` });

  /** Pods with room for some of the sessions that another one had at work, one after the other, when it died. */
  async function survivors(rooms: Record<string, number>) {
    const together = await shared();
    const dying = await startPod('dying', together, HERD.length);
    for (const turnId of HERD) {
      await dying.post(turnId, of(turnId));
      await dying.clock.advance(10);
    }
    const pods = await Promise.all(Object.entries(rooms).map(([podId, max]) => startPod(podId, together, max)));
    await dying.supervisor.stop();
    for (const { dead } of pods) dead.declare('dying:boot', SETTINGS.leaseTtlMs);
    return pods;
  }

  it('is taken over by the others within their room, longest waiting first, and the rest as room comes free', async () => {
    const pods = await survivors({ b: 3, c: 2 });
    const seen = (): string[] => pods.flatMap(({ turns }) => turns.seen).toSorted();
    const active = (): number[] => pods.map(({ supervisor }) => supervisor.counts().active);
    await Promise.all(pods.map(({ supervisor }) => supervisor.lookAtWaiting()));
    await pods[0]!.clock.advance(100);
    expect([seen(), active()]).toEqual([HERD.slice(0, 5), [3, 2]]);
    for (let served = 6; served <= HERD.length; served++) {
      pods[served % 2]!.turns.end();
      await pods[0]!.clock.advance(100);
      expect([seen(), active()]).toEqual([HERD.slice(0, served), [3, 2]]);
    }
  });

  it('stands in nobody’s way where it cannot be taken over, and is tried again at every sweep until it can', async () => {
    const [pod] = await survivors({ b: 2 });
    const { clock, ledger, turns, supervisor } = pod!;
    const away = ({ sessionId }: SessionKey): Promise<number> =>
      ['ses-t0', 'ses-t1', 'ses-t2'].includes(sessionId)
        ? Promise.reject(new UnavailableError('database', 'away'))
        : Promise.resolve(0);
    ledger.ownerEpoch.mockImplementation(away);
    await supervisor.lookAtWaiting();
    await clock.advance(300);
    expect(turns.seen).toEqual(['t3', 't4']);
    const tries = ledger.ownerEpoch.mock.calls.length;
    turns.end();
    await clock.advance(100);
    expect([turns.seen, ledger.ownerEpoch.mock.calls.length - tries]).toEqual([['t3', 't4', 't5'], 2]);
    ledger.ownerEpoch.mockImplementation(() => Promise.resolve(0));
    await clock.advance(SETTINGS.sweepIntervalMs);
    for (const next of [['t0'], ['t0', 't1'], ['t0', 't1', 't2'], ['t0', 't1', 't2', 't6']]) {
      turns.end();
      await clock.advance(100);
      expect(turns.seen.slice(3)).toEqual(next);
    }
  });

  it('does not keep newcomers out: a tenth of the room is theirs', async () => {
    const [pod] = await survivors({ b: 10 });
    const { clock, turns, supervisor, post } = pod!;
    await supervisor.lookAtWaiting();
    await clock.advance(100);
    expect(turns.seen).toEqual(HERD.slice(0, 9));
    await post('new', of('new'));
    await post('newer', of('newer'));
    expect(turns.seen.slice(9)).toEqual(['new']);
    for (const next of [['t9'], ['t9', 'newer']]) {
      turns.end();
      await clock.advance(100);
      expect([turns.seen.slice(10), supervisor.counts().active]).toEqual([next, 10]);
    }
  });
});
