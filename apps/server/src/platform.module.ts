import { type DynamicModule, Module } from '@nestjs/common';
import { KeyNames } from '#protocol';
import {
  Channels,
  Clock,
  COORDINATION,
  CoordinationHealth,
  Database,
  Drain,
  LoopLag,
  PodIdentity,
  PresumedDead,
  Randomness,
  Settings,
  StepPoints,
} from '#platform';
import type { Foundations } from './foundations.js';

/** Enough for a POD_ID never to have the same boot twice. */
const BOOT_CHARS = 12;

export interface PodParts extends Foundations {
  settings: Settings;
  clock: Clock;
  randomness: Randomness;
  steps: StepPoints;
}

/** What every room of the pod stands on, for all of them. */
@Module({})
export class PlatformModule {
  static of({ settings, clock, randomness, steps, database, coordination }: PodParts): DynamicModule {
    const providers = [
      { provide: Settings, useValue: settings },
      { provide: Clock, useValue: clock },
      { provide: Randomness, useValue: randomness },
      { provide: StepPoints, useValue: steps },
      { provide: Database, useValue: database },
      { provide: COORDINATION, useValue: coordination },
      { provide: Channels, useValue: coordination.channels },
      { provide: KeyNames, useValue: new KeyNames(settings.redisKeyPrefix) },
      {
        provide: PodIdentity,
        useValue: new PodIdentity(settings.podId, randomness.id().replaceAll('-', '').slice(0, BOOT_CHARS)),
      },
      Drain,
      CoordinationHealth,
      LoopLag,
      PresumedDead,
    ];
    return { module: PlatformModule, global: true, providers, exports: providers };
  }
}
