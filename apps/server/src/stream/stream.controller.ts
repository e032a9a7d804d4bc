import { Controller, Get, Headers, Inject, Param, Query, Req, Res } from '@nestjs/common';
import { ApiHeader, ApiOperation, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import type { Request, Response } from 'express';
import type { Id } from '#protocol';
import { Clock } from '#platform';
import { SessionStreams } from '#event-stream';
import { type Caller, CurrentCaller } from '../auth/caller.js';
import { SEQ, SEQ_RULE } from '../events/seq.js';
import { Matching, MayBeLeftOut } from '../http/field.decorators.js';
import { IdPipe, validationFailed } from '../http/request-validation.js';
import { AnswersStream, Refuses } from '../openapi/answers.js';
import { writeStream } from './stream.writer.js';

export class StreamQuery {
  @ApiPropertyOptional({
    type: 'integer',
    minimum: 0,
    description: 'The seq of the last event that you have; else: from now',
  })
  @MayBeLeftOut()
  @Matching(SEQ, SEQ_RULE)
  after?: string;
}

@ApiTags('events')
@Controller('v1/sessions/:sessionId/stream')
export class StreamController {
  constructor(
    @Inject(SessionStreams) private readonly streams: SessionStreams,
    @Inject(Clock) private readonly clock: Clock,
  ) {}

  @Get()
  @ApiOperation({
    summary: 'Follow a session: Server-Sent Events',
    description:
      'Each event behind the cursor once and in order, then what happens, as it happens; `model.delta` is live text and ' +
      'has no id. `stream.end` says why the stream ends and where to go on. A browser does so by itself.',
  })
  @ApiHeader({ name: 'Last-Event-ID', required: false, description: 'Beats `after`' })
  @AnswersStream()
  @Refuses('validation_failed', 'not_found', 'ledger_unavailable', 'draining')
  async watch(
    @CurrentCaller() { account }: Caller,
    @Param('sessionId', IdPipe) sessionId: Id,
    @Query() query: StreamQuery,
    @Headers('last-event-id') lastEventId: string | undefined,
    @Req() request: Request,
    @Res() response: Response,
  ): Promise<void> {
    const vanished = new AbortController();
    response.once('close', () => vanished.abort());
    // The client may have gone while the guards ran: then `close` has been told already.
    if (response.closed || request.socket.destroyed) vanished.abort();
    const watch = await this.streams.open({ account, sessionId }, cursorOf(lastEventId, query.after), vanished.signal);
    if (request.method === 'HEAD' || vanished.signal.aborted) {
      watch.leave();
      response.type('text/event-stream').end();
      return;
    }
    await writeStream(response, watch, this.clock);
  }
}

/** A browser resends the URL that it began with, and beside it the id that it has come to. */
function cursorOf(lastEventId: string | undefined, after: string | undefined): number | null {
  if (lastEventId && !SEQ.test(lastEventId)) throw validationFailed([{ path: 'Last-Event-ID', message: SEQ_RULE }]);
  const cursor = lastEventId || after;
  return cursor === undefined ? null : Number(cursor);
}
