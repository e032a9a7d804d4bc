import { type DynamicModule, Global, Module, type Type } from '@nestjs/common';
import { APP_FILTER, APP_GUARD, APP_PIPE, ModuleRef } from '@nestjs/core';
import { TerminusModule } from '@nestjs/terminus';
import { LoggerModule } from 'nestjs-pino';
import { KeyNames } from '#protocol';
import { Channels } from '#platform';
import { ActorModule, ActorSupervisor, PartitionFiller, TurnHandler } from '#actor';
import { AgentsModule, OwnSessions } from '#agents';
import { EventLedgerModule } from '#event-ledger';
import { EventStreamModule } from '#event-stream';
import { Intake, IntakeModule } from '#intake';
import { AnnouncedWork, MessageQueueModule, WaitingWork } from '#message-queue';
import { PartitionFilling, RecoveryModule } from '#recovery';
import { SessionLockModule } from '#session-lock';
import { TurnLifecycleModule } from '#turn-lifecycle';
import { ChildDoor, TurnRunner, TurnRunnerModule } from '#turn-runner';
import { CallerGuard } from './auth/caller.guard.js';
import { EventsController } from './events/events.controller.js';
import { HealthController } from './health/health.controller.js';
import { FrontDoor } from './http/front-door.js';
import { JsonBodyGuard } from './http/json-body.js';
import { ProblemFilter } from './http/problem.filter.js';
import { requestValidation } from './http/request-validation.js';
import { logging } from './logging.js';
import { MessagesController } from './messages/messages.controller.js';
import { OwnershipController } from './ownership/ownership.controller.js';
import { OwnershipView } from './ownership/ownership.view.js';
import { PlatformModule, type PodParts } from './platform.module.js';
import { PodLifecycle } from './pod-lifecycle.js';
import { LedgerOwnSessions } from './sessions/own-sessions.js';
import { SessionFinder } from './sessions/session.finder.js';
import { SessionView } from './sessions/session.view.js';
import { SessionsController } from './sessions/sessions.controller.js';
import { StreamController } from './stream/stream.controller.js';
import { TurnActsController } from './turns/turn-acts.controller.js';
import { TurnView } from './turns/turn.view.js';
import { TurnsController } from './turns/turns.controller.js';

/** What the local agent asks of the app. */
@Global()
@Module({
  imports: [EventLedgerModule, TurnLifecycleModule],
  providers: [SessionView, { provide: OwnSessions, useClass: LedgerOwnSessions }],
  exports: [OwnSessions],
})
class OwnSessionsModule {}

/** What verbs ask of each other without importing each other, on a pod that runs actors. */
@Global()
@Module({
  imports: [TurnRunnerModule, RecoveryModule, IntakeModule],
  providers: [
    { provide: TurnHandler, useExisting: TurnRunner },
    { provide: PartitionFiller, useExisting: PartitionFilling },
    { provide: ChildDoor, useExisting: Intake },
    {
      // The supervisor needs the filling, which offers it work: so it is looked for when there is some.
      provide: WaitingWork,
      inject: [ModuleRef],
      useFactory: (modules: ModuleRef): WaitingWork => ({
        offer: (...work) => modules.get(ActorSupervisor, { strict: false }).offer(...work),
      }),
    },
  ],
  exports: [TurnHandler, PartitionFiller, ChildDoor, WaitingWork],
})
class ActorPortsModule {}

/** The same on a pod that only answers calls: work is announced to the pods that run actors. */
@Global()
@Module({
  providers: [
    {
      provide: WaitingWork,
      inject: [Channels, KeyNames],
      useFactory: (channels: Channels, keys: KeyNames) => new AnnouncedWork(channels, keys),
    },
  ],
  exports: [WaitingWork],
})
class AnnouncedWorkModule {}

const API: Type[] = [
  SessionsController,
  MessagesController,
  TurnsController,
  TurnActsController,
  EventsController,
  StreamController,
  OwnershipController,
];

/** The composition root. */
@Module({})
export class PodModule {
  static of(parts: PodParts): DynamicModule {
    const { roles } = parts.settings;
    return {
      module: PodModule,
      imports: [
        LoggerModule.forRoot(logging(parts.settings)),
        // A probe that fails is no news for the log: who asks it knows.
        TerminusModule.forRoot({ logger: false }),
        PlatformModule.of(parts),
        ...[
          SessionLockModule,
          MessageQueueModule,
          TurnLifecycleModule,
          EventLedgerModule,
          EventStreamModule,
          IntakeModule,
        ],
        ...(roles.includes('actors')
          ? [OwnSessionsModule, AgentsModule, ActorPortsModule, ActorModule, RecoveryModule]
          : [AnnouncedWorkModule]),
      ],
      controllers: roles.includes('api') ? [HealthController, ...API] : [HealthController],
      providers: [
        ...[FrontDoor, PodLifecycle, SessionFinder, SessionView, TurnView, OwnershipView],
        { provide: APP_FILTER, useClass: ProblemFilter },
        { provide: APP_GUARD, useClass: CallerGuard },
        { provide: APP_GUARD, useClass: JsonBodyGuard },
        { provide: APP_PIPE, useFactory: requestValidation },
      ],
    };
  }
}
