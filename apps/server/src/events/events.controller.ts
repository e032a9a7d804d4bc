import { Controller, Get, Inject, Param, Query } from '@nestjs/common';
import { ApiOperation, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import type { Event, Id } from '#protocol';
import { EventLedger } from '#event-ledger';
import { type Caller, CurrentCaller } from '../auth/caller.js';
import { Matching, MayBeLeftOut } from '../http/field.decorators.js';
import { cutPage, limitOf, PageQuery } from '../http/page.js';
import { IdPipe } from '../http/request-validation.js';
import { Answers, Refuses } from '../openapi/answers.js';
import { SessionFinder } from '../sessions/session.finder.js';
import { SEQ, SEQ_RULE } from './seq.js';

export class EventsQuery extends PageQuery {
  @ApiPropertyOptional({
    type: 'integer',
    minimum: 0,
    default: 0,
    description: 'The seq of the last event that you have',
  })
  @MayBeLeftOut()
  @Matching(SEQ, SEQ_RULE)
  after?: string;
}

interface Events {
  events: Event[];
  nextAfter: number;
  hasMore: boolean;
}

@ApiTags('events')
@Controller('v1/sessions/:sessionId/events')
export class EventsController {
  constructor(
    @Inject(EventLedger) private readonly ledger: EventLedger,
    @Inject(SessionFinder) private readonly finder: SessionFinder,
  ) {}

  @Get()
  @ApiOperation({ summary: 'The events of a session behind a cursor, each once and in order' })
  @Answers(200, 'Events')
  @Refuses('validation_failed', 'not_found', 'ledger_unavailable')
  async list(
    @CurrentCaller() { account }: Caller,
    @Param('sessionId', IdPipe) sessionId: Id,
    @Query() query: EventsQuery,
  ): Promise<Events> {
    const limit = limitOf(query);
    const after = Number(query.after ?? 0);
    const { session } = await this.finder.find({ account, sessionId });
    const { page, hasMore } = cutPage(await this.ledger.events(session, after, limit + 1), limit);
    return { events: page, nextAfter: page.at(-1)?.seq ?? after, hasMore };
  }
}
