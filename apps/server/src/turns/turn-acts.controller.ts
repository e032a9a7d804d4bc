import { Body, Controller, HttpCode, Inject, Param, Patch, Post, Res } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import type { Response } from 'express';
import type { Accepted, Id, StopAnswer, Turn } from '#protocol';
import { Intake } from '#intake';
import { type Caller, CurrentCaller } from '../auth/caller.js';
import { IdPipe } from '../http/request-validation.js';
import { Answers, Refuses } from '../openapi/answers.js';
import { EditMessageDto } from '../messages/message.dto.js';
import { RetryTurnDto, StopTurnDto } from './turn-acts.dto.js';
import { TurnView } from './turn.view.js';

/** What a user does to a turn: edit its message, stop it, try it again. */
@ApiTags('turns')
@Controller('v1/sessions/:sessionId/turns/:turnId')
export class TurnActsController {
  constructor(
    @Inject(Intake) private readonly intake: Intake,
    @Inject(TurnView) private readonly view: TurnView,
  ) {}

  @Patch()
  @ApiOperation({
    summary: 'Edit a message that still waits',
    description:
      'By the user who said it, or an admin. To withdraw it, stop its turn. The content that it has already is answered again, whatever the state of the turn.',
  })
  @Answers(200, 'Turn')
  @Refuses(
    'validation_failed',
    'not_found',
    'turn_mismatch',
    'turn_ended',
    'payload_too_large',
    'unsupported_media_type',
    'ledger_unavailable',
  )
  async edit(
    @CurrentCaller() caller: Caller,
    @Param('sessionId', IdPipe) sessionId: Id,
    @Param('turnId', IdPipe) turnId: Id,
    @Body() { content }: EditMessageDto,
  ): Promise<Turn> {
    const target = { account: caller.account, sessionId, turnId, content };
    const turn = await this.intake.editMessage({ ...target, ...actorOf(caller) });
    return this.view.of({ account: caller.account, sessionId }, turn);
  }

  @Post('stop')
  @HttpCode(202)
  @ApiOperation({
    summary: 'Stop a turn and everything below it',
    description:
      'The only way to stop. By the user who started the turn, or an admin; others are refused as `turn_mismatch`. A turn that is queued, or whose message has not come yet, ends at once; a running one ends ' +
      'where every tool call has its result. `already`: this call changed nothing on the turn itself.',
  })
  @Answers(202, 'StopAnswer')
  @Refuses(
    'validation_failed',
    'turn_mismatch',
    'stale_generation',
    'payload_too_large',
    'unsupported_media_type',
    'ledger_unavailable',
  )
  async stop(
    @CurrentCaller() caller: Caller,
    @Param('sessionId', IdPipe) sessionId: Id,
    @Param('turnId', IdPipe) turnId: Id,
    @Body() { generation, reason }: StopTurnDto,
  ): Promise<StopAnswer> {
    const target = { account: caller.account, sessionId, turnId, generation: generation ?? null };
    return this.intake.stopTurn({ ...target, ...actorOf(caller), reason: reason ?? null });
  }

  @Post('retry')
  @HttpCode(202)
  @ApiOperation({
    summary: 'Try a turn again that has ended',
    description:
      'By the user who started it, or an admin. Begins its next generation, with a clean slate of steps. The same call again is answered as the first time, with ' +
      'Idempotency-Replayed: true.',
  })
  @Answers(202, 'Accepted', { 'Idempotency-Replayed': '`true` when this retry had been accepted before' })
  @Refuses(
    'validation_failed',
    'not_found',
    'turn_mismatch',
    'turn_stopped',
    'turn_ended',
    'stale_generation',
    'payload_too_large',
    'unsupported_media_type',
    'queue_full',
    'ledger_unavailable',
    'coordination_unavailable',
    'draining',
  )
  async retry(
    @CurrentCaller() caller: Caller,
    @Param('sessionId', IdPipe) sessionId: Id,
    @Param('turnId', IdPipe) turnId: Id,
    @Body() { generation }: RetryTurnDto,
    @Res({ passthrough: true }) response: Response,
  ): Promise<Accepted> {
    const target = { account: caller.account, sessionId, turnId, generation };
    const { accepted, replayed } = await this.intake.retryTurn({ ...target, ...actorOf(caller) });
    if (replayed) response.setHeader('Idempotency-Replayed', 'true');
    return accepted;
  }
}

function actorOf({ initiator, scopes }: Caller): { by: string; isAdmin: boolean } {
  return { by: initiator, isAdmin: scopes.has('admin') };
}
