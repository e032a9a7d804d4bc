import { Controller, Get, Inject, Param, Query } from '@nestjs/common';
import { ApiOperation, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import { IsIn } from 'class-validator';
import { ButlerError, type Id, type Turn, TURN_STATES, type TurnState } from '#protocol';
import { Database } from '#platform';
import { Turns } from '#turn-lifecycle';
import { type Caller, CurrentCaller } from '../auth/caller.js';
import { MayBeLeftOut } from '../http/field.decorators.js';
import { cutPage, decodeCursor, encodeCursor, limitOf, OpaquePageQuery } from '../http/page.js';
import { IdPipe } from '../http/request-validation.js';
import { Answers, Refuses } from '../openapi/answers.js';
import { SessionFinder } from '../sessions/session.finder.js';
import { TurnView } from './turn.view.js';

export class TurnsQuery extends OpaquePageQuery {
  @ApiPropertyOptional({ enum: TURN_STATES })
  @MayBeLeftOut()
  @IsIn(TURN_STATES, { message: `must be one of: ${TURN_STATES.join(', ')}` })
  state?: TurnState;
}

interface TurnPage {
  turns: Turn[];
  nextAfter: string | null;
  hasMore: boolean;
}

@ApiTags('turns')
@Controller('v1/sessions/:sessionId/turns')
export class TurnsController {
  constructor(
    @Inject(Turns) private readonly turns: Turns,
    @Inject(Database) private readonly database: Database,
    @Inject(SessionFinder) private readonly finder: SessionFinder,
    @Inject(TurnView) private readonly view: TurnView,
  ) {}

  @Get()
  @ApiOperation({ summary: 'The turns of a session, in the order of the session' })
  @Answers(200, 'Turns')
  @Refuses('validation_failed', 'not_found', 'ledger_unavailable')
  async list(
    @CurrentCaller() { account }: Caller,
    @Param('sessionId', IdPipe) sessionId: Id,
    @Query() query: TurnsQuery,
  ): Promise<TurnPage> {
    const limit = limitOf(query);
    const after = query.after === undefined ? 0 : decodeCursor(query.after, readCursor);
    const { session } = await this.finder.find({ account, sessionId });
    const rows = await this.turns.list(session, after, limit + 1, query.state ?? null);
    const { page, hasMore } = cutPage(rows, limit);
    const last = page.at(-1)?.queueSeq;
    return { turns: await this.view.ofAll(session, page), nextAfter: last ? encodeCursor([last]) : null, hasMore };
  }

  @Get(':turnId')
  @ApiOperation({ summary: 'One turn', description: 'Also one that was stopped before its message came.' })
  @Answers(200, 'Turn')
  @Refuses('validation_failed', 'not_found', 'ledger_unavailable')
  async one(
    @CurrentCaller() { account }: Caller,
    @Param('sessionId', IdPipe) sessionId: Id,
    @Param('turnId', IdPipe) turnId: Id,
  ): Promise<Turn> {
    const row = await this.turns.find(this.database, account, turnId);
    if (row?.sessionId !== sessionId) {
      throw new ButlerError('not_found', 'There is no such turn in this session.', { sessionId, turnId });
    }
    return this.view.of({ account, sessionId }, row);
  }
}

function readCursor([queueSeq]: unknown[]): number | null {
  return Number.isSafeInteger(queueSeq) && (queueSeq as number) > 0 ? (queueSeq as number) : null;
}
