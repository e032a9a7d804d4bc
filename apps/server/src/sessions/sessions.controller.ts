import { Body, Controller, Get, HttpCode, Inject, Param, Patch, Post, Query } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import { type Id, isId, type Session } from '#protocol';
import { EventLedger, type SessionRow } from '#event-ledger';
import { Intake } from '#intake';
import { type Caller, CurrentCaller } from '../auth/caller.js';
import { cutPage, decodeCursor, encodeCursor, limitOf, OpaquePageQuery } from '../http/page.js';
import { IdPipe } from '../http/request-validation.js';
import { Answers, Refuses } from '../openapi/answers.js';
import { ChangeSessionDto, CreateSessionDto } from './session.dto.js';
import { noSuchSession, SessionFinder } from './session.finder.js';
import { SessionView } from './session.view.js';

interface Sessions {
  sessions: Session[];
  nextAfter: string | null;
  hasMore: boolean;
}

@ApiTags('sessions')
@Controller('v1/sessions')
export class SessionsController {
  constructor(
    @Inject(Intake) private readonly intake: Intake,
    @Inject(EventLedger) private readonly ledger: EventLedger,
    @Inject(SessionFinder) private readonly finder: SessionFinder,
    @Inject(SessionView) private readonly view: SessionView,
  ) {}

  @Post()
  @HttpCode(201)
  @ApiOperation({ summary: 'Create a session', description: 'The same body again is answered the same.' })
  @Answers(201, 'Session')
  @Refuses(
    'validation_failed',
    'session_exists',
    'payload_too_large',
    'unsupported_media_type',
    'ledger_unavailable',
    'draining',
  )
  async create(@CurrentCaller() { account }: Caller, @Body() body: CreateSessionDto): Promise<Session> {
    const { sessionId = null, title = null, metadata = null } = body;
    return this.view.of(await this.intake.createSession({ account, sessionId, title, metadata }));
  }

  @Get()
  @ApiOperation({ summary: 'The sessions of the account, newest activity first' })
  @Answers(200, 'Sessions')
  @Refuses('validation_failed', 'ledger_unavailable')
  async list(@CurrentCaller() { account }: Caller, @Query() query: OpaquePageQuery): Promise<Sessions> {
    const limit = limitOf(query);
    const after = query.after === undefined ? null : decodeCursor(query.after, readCursor);
    const { page, hasMore } = cutPage(await this.ledger.listSessions(account, after, limit + 1), limit);
    const last = page.at(-1);
    return { sessions: await this.view.ofAll(page), nextAfter: last ? cursorOf(last) : null, hasMore };
  }

  @Get(':sessionId')
  @ApiOperation({ summary: 'One session' })
  @Answers(200, 'Session')
  @Refuses('validation_failed', 'not_found', 'ledger_unavailable')
  async one(@CurrentCaller() { account }: Caller, @Param('sessionId', IdPipe) sessionId: Id): Promise<Session> {
    return this.view.of(await this.finder.find({ account, sessionId }));
  }

  @Patch(':sessionId')
  @ApiOperation({ summary: 'Change title or metadata', description: 'What is left out stays; null takes it away.' })
  @Answers(200, 'Session')
  @Refuses(
    'validation_failed',
    'not_found',
    'payload_too_large',
    'unsupported_media_type',
    'ledger_unavailable',
    'draining',
  )
  async change(
    @CurrentCaller() { account }: Caller,
    @Param('sessionId', IdPipe) sessionId: Id,
    @Body() { title, metadata }: ChangeSessionDto,
  ): Promise<Session> {
    const session = { account, sessionId };
    const row = await this.ledger.updateSession(session, {
      ...(title !== undefined && { title }),
      ...(metadata !== undefined && { metadata }),
    });
    if (!row) throw noSuchSession(session);
    return this.view.of(row);
  }
}

function cursorOf(row: SessionRow): string {
  return encodeCursor([row.lastActivityAtMs, row.session.sessionId]);
}

function readCursor([lastActivityAtMs, sessionId]: unknown[]): { lastActivityAtMs: number; sessionId: Id } | null {
  if (!Number.isSafeInteger(lastActivityAtMs) || !isId(sessionId)) return null;
  return { lastActivityAtMs: lastActivityAtMs as number, sessionId };
}
