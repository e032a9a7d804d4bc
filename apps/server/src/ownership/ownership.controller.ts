import { Controller, Get, Inject, Param } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import type { Id, Ownership } from '#protocol';
import { type Caller, CurrentCaller } from '../auth/caller.js';
import { Needs } from '../auth/caller.guard.js';
import { IdPipe } from '../http/request-validation.js';
import { Answers, Refuses } from '../openapi/answers.js';
import { noSuchSession, SessionFinder } from '../sessions/session.finder.js';
import { OwnershipView } from './ownership.view.js';

@ApiTags('admin')
@Needs('admin', 'operator')
@Controller('v1/admin/sessions/:account/:sessionId/ownership')
export class OwnershipController {
  constructor(
    @Inject(SessionFinder) private readonly finder: SessionFinder,
    @Inject(OwnershipView) private readonly view: OwnershipView,
  ) {}

  @Get()
  @ApiOperation({
    summary: 'Who serves a session',
    description: 'An admin sees the own account, an operator every one.',
  })
  @Answers(200, 'Ownership')
  @Refuses('validation_failed', 'not_found', 'ledger_unavailable', 'coordination_unavailable')
  async one(
    @CurrentCaller() caller: Caller,
    @Param('account', IdPipe) account: Id,
    @Param('sessionId', IdPipe) sessionId: Id,
  ): Promise<Ownership> {
    const session = { account, sessionId };
    if (account !== caller.account && !caller.scopes.has('operator')) throw noSuchSession(session);
    return this.view.of(await this.finder.find(session));
  }
}
