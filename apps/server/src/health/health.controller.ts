import { Controller, Get, Inject, Res } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import type { HealthCheckResult, HealthIndicatorResult } from '@nestjs/terminus';
import type { Response } from 'express';
import { CoordinationHealth, Database, Drain } from '#platform';
import { Open } from '../auth/caller.guard.js';
import { Answers } from '../openapi/answers.js';

/** So a probe that is asked every second or so has its answer before it is asked again. */
const PROBE_LIMIT_MS = 800;

const FINE: HealthCheckResult = { status: 'ok', info: {}, error: {}, details: {} };

/**
 * Probes, in the format of terminus. Its checks are not used: they answer 503 to every probe once a shutdown has begun,
 * also to the one about life, and a pod that hands its turns over must not be killed for that.
 */
@ApiTags('health')
@Open()
@Controller('health')
export class HealthController {
  constructor(
    @Inject(Database) private readonly database: Database,
    @Inject(CoordinationHealth) private readonly coordination: CoordinationHealth,
    @Inject(Drain) private readonly drain: Drain,
  ) {}

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
    const [ledger, coordination] = await Promise.all([
      this.database.ping(PROBE_LIMIT_MS),
      this.coordination.ping(PROBE_LIMIT_MS),
    ]);
    const draining = this.drain.started;
    const up = { ledger, coordination, serving: !draining };
    if (!ledger || !coordination || draining) response.status(503);
    return resultOf(up, draining);
  }
}

function resultOf(up: Record<string, boolean>, draining: boolean): HealthCheckResult {
  const named = Object.entries(up).map(([name, isUp]): HealthIndicatorResult => ({
    [name]: { status: isUp ? 'up' : 'down' },
  }));
  const merge = (status: string): HealthIndicatorResult =>
    Object.assign(
      {},
      ...named.filter((result) => Object.values(result)[0]!.status === status),
    ) as HealthIndicatorResult;
  const error = merge('down');
  const status = draining ? 'shutting_down' : Object.keys(error).length > 0 ? 'error' : 'ok';
  return { status, info: merge('up'), error, details: { ...merge('up'), ...error } };
}
