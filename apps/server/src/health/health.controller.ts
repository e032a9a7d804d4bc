import { Controller, Get, Inject, Res, ServiceUnavailableException } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import {
  type HealthCheckResult,
  HealthCheckService,
  type HealthIndicatorFunction,
  HealthIndicatorService,
} from '@nestjs/terminus';
import type { Response } from 'express';
import { CoordinationHealth, Database, Drain } from '#platform';
import { Open } from '../auth/caller.guard.js';
import { Answers } from '../openapi/answers.js';

/** So a probe that is asked every second or so has its answer before it is asked again. */
const PROBE_LIMIT_MS = 800;

const FINE: HealthCheckResult = { status: 'ok', info: {}, error: {}, details: {} };

/** Probes, in the format of terminus. */
@ApiTags('health')
@Open()
@Controller('health')
export class HealthController {
  constructor(
    @Inject(HealthCheckService) private readonly health: HealthCheckService,
    @Inject(HealthIndicatorService) private readonly indicators: HealthIndicatorService,
    @Inject(Database) private readonly database: Database,
    @Inject(CoordinationHealth) private readonly coordination: CoordinationHealth,
    @Inject(Drain) private readonly drain: Drain,
  ) {}

  /** Not by terminus' check, which fails in a shutdown: a pod that hands its turns over must not be killed for that. */
  @Get('live')
  @ApiOperation({
    summary: 'Whether the process lives',
    description: 'Asks nothing else: an outage is no reason for a restart.',
  })
  @Answers(200, 'Health')
  live(): HealthCheckResult {
    return FINE;
  }

  @Get('startup')
  @ApiOperation({ summary: 'Whether the pod has started', description: 'It listens only when it has.' })
  @Answers(200, 'Health')
  startup(): HealthCheckResult {
    return FINE;
  }

  @Get('ready')
  @ApiOperation({
    summary: 'Whether calls should be sent here: ledger and coordination answer, and the pod is not draining',
  })
  @Answers(200, 'Health')
  @Answers(503, 'Health')
  async ready(@Res({ passthrough: true }) response: Response): Promise<HealthCheckResult> {
    try {
      return await this.health.check([
        this.indicator('ledger', () => this.database.ping(PROBE_LIMIT_MS)),
        this.indicator('coordination', () => this.coordination.ping(PROBE_LIMIT_MS)),
        this.indicator('serving', () => Promise.resolve(!this.drain.started)),
      ]);
    } catch (error) {
      if (!(error instanceof ServiceUnavailableException)) throw error;
      response.status(503);
      return error.getResponse() as HealthCheckResult;
    }
  }

  private indicator(name: string, isUp: () => Promise<boolean>): HealthIndicatorFunction {
    return async () => {
      const indicator = this.indicators.check(name);
      return (await isUp()) ? indicator.up() : indicator.down();
    };
  }
}
