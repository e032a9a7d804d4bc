import { KeyNames } from '#protocol';
import {
  type Clock,
  CoordinationHealth,
  type Database,
  type Drain,
  memoryCoordination,
  MemoryStore,
  PodIdentity,
  PresumedDead,
  type Randomness,
  Settings,
  type StepPoints,
} from '#platform';
import { type LiveEvents, SqlEventLedger } from '#event-ledger';
import { Family, Reports } from '#family';
import { AdmissionGate, EditGate, InterruptGate, Intake, Refusals, RetryGate, SpawnGate, StopGate } from '#intake';
import { Handover, MemoryMessageQueue, type MessageQueue, type WaitingWork } from '#message-queue';
import { MemoryTurnRecords, SqlTurns, type TurnRecords } from '#turn-lifecycle';
import { Absorption, type Agent, Finish, StartGate, TurnRunner } from '#turn-runner';

/** What the gates and the runner of one pod are made of. */
export interface PodComposition {
  database: Database;
  live: LiveEvents;
  records: TurnRecords;
  queue: MessageQueue;
  waitingWork: WaitingWork;
  health: CoordinationHealth;
  pod: PodIdentity;
  clock: Clock;
  randomness: Randomness;
  steps: StepPoints;
  drain: Drain;
  settings: Settings;
  agent: Agent;
  /** Nobody, unless given. */
  dead?: PresumedDead;
}

export interface ComposedPod {
  turns: SqlTurns;
  ledger: SqlEventLedger;
  admission: AdmissionGate;
  intake: Intake;
  runner: TurnRunner;
}

/** The gates and the runner of one pod, put together as the app does it. */
export function composePod(parts: PodComposition): ComposedPod {
  const { database, live, records, clock, randomness, steps, settings, agent, drain, health } = parts;
  const turns = new SqlTurns(database);
  const ledger = new SqlEventLedger(database);
  const family = new Family(turns, ledger, randomness);
  const handover = new Handover(parts.queue, parts.waitingWork, parts.pod, parts.dead ?? new PresumedDead(clock));
  const reports = new Reports(live, handover);
  const gated = [database, turns, ledger, family, randomness] as const;
  const admission = new AdmissionGate(database, turns, ledger, randomness, settings);
  const interrupts = new InterruptGate(...gated, settings);
  const edits = new EditGate(database, turns, ledger, randomness);
  const stops = new StopGate(...gated);
  const retries = new RetryGate(...gated, settings);
  const spawns = new SpawnGate(...gated, settings);
  const refusals = new Refusals(database, turns, ledger, randomness);
  const intake = new Intake(
    ...([
      admission,
      interrupts,
      edits,
      stops,
      retries,
      spawns,
      refusals,
      ledger,
      live,
      records,
      reports,
      handover,
    ] as const),
    ...([health, randomness, steps] as const),
  );
  const told = [live, clock, randomness, steps] as const;
  const gate = new StartGate(database, turns, ledger, family, reports, ...told, settings);
  const finish = new Finish(database, turns, ledger, family, reports, ...told);
  const absorption = new Absorption(database, turns, ledger, ...told);
  const runner = new TurnRunner(
    ...([gate, finish, absorption, intake, agent, database, turns, records, ledger] as const),
    ...([...told, drain, settings] as const),
  );
  return { turns, ledger, admission, intake, runner };
}

/** Coordination in memory, which nobody else uses and nobody serves. */
export function lonelyCoordination(
  clock: Clock,
  settings = new Settings(),
): Pick<PodComposition, 'records' | 'queue' | 'waitingWork' | 'health' | 'pod'> {
  const keys = new KeyNames('t:');
  const store = new MemoryStore(clock);
  return {
    records: new MemoryTurnRecords(store, keys, settings.turnRecordTtlMs),
    queue: new MemoryMessageQueue(store, keys, settings, clock),
    waitingWork: { offer: () => undefined },
    health: new CoordinationHealth(memoryCoordination('t:', clock, store)),
    pod: new PodIdentity('lonely', 'boot'),
  };
}
