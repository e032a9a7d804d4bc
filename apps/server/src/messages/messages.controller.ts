import { Body, Controller, HttpCode, Inject, Param, Post, Res } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import type { Response } from 'express';
import type { Accepted, Id } from '#protocol';
import { Intake } from '#intake';
import { type Caller, CurrentCaller } from '../auth/caller.js';
import { IdPipe } from '../http/request-validation.js';
import { Answers, Refuses } from '../openapi/answers.js';
import { PostMessageDto } from './message.dto.js';

@ApiTags('messages')
@Controller('v1/sessions/:sessionId/messages')
export class MessagesController {
  constructor(@Inject(Intake) private readonly intake: Intake) {}

  @Post()
  @HttpCode(202)
  @ApiOperation({
    summary: 'Say something to a session',
    description:
      'Creates the session when it is new. Once answered, the message is kept and will be worked on. Sending the same ' +
      'again, under the same turnId, is answered as the first time, with Idempotency-Replayed: true. The whole body has ' +
      'at most MESSAGE_MAX_BYTES bytes, and at most QUEUE_MAX_PENDING messages wait in one session.',
  })
  @Answers(202, 'Accepted', { 'Idempotency-Replayed': '`true` when this message had been accepted before' })
  @Refuses(
    'validation_failed',
    'turn_stopped',
    'turn_mismatch',
    'session_busy',
    'payload_too_large',
    'unsupported_media_type',
    'queue_full',
    'ledger_unavailable',
    'coordination_unavailable',
    'draining',
  )
  async post(
    @CurrentCaller() caller: Caller,
    @Param('sessionId', IdPipe) sessionId: Id,
    @Body() body: PostMessageDto,
    @Res({ passthrough: true }) response: Response,
  ): Promise<Accepted> {
    const { accepted, replayed } = await this.intake.postMessage({
      account: caller.account,
      initiator: caller.initiator,
      isAdmin: caller.scopes.has('admin'),
      sessionId,
      turnId: body.turnId ?? null,
      content: body.content,
      mode: body.mode ?? 'enqueue',
      metadata: body.metadata ?? null,
    });
    if (replayed) response.setHeader('Idempotency-Replayed', 'true');
    return accepted;
  }
}
