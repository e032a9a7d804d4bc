import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { type Content, type FieldError, type Id, isId, type Meta, type Mode } from '#protocol';
import { isReservedTurnId } from '#family';
import { Checked, ID_RULE, MayBeLeftOut } from '../http/field.decorators.js';
import { metadataFaults } from '../http/metadata.check.js';
import { ref } from '../openapi/schema-shorthand.js';
import { contentFaults } from './content.check.js';

/**
 * A steering message is an ordinary one that waits its turn: that a running turn takes it in comes later, and changes
 * nothing for who posted it. An interrupting one would have to stop the running turn: queueing it instead would be a lie.
 */
const SERVED_MODES = ['enqueue', 'steer', 'reject'] as const satisfies Mode[];

function modeFaults(mode: unknown): FieldError[] {
  if ((SERVED_MODES as readonly unknown[]).includes(mode)) return [];
  const message =
    mode === 'interrupt'
      ? 'must not be interrupt yet: a running turn cannot be stopped in this version, so nothing could be interrupted'
      : `must be one of: ${SERVED_MODES.join(', ')}`;
  return [{ path: '', message }];
}

function turnIdFaults(turnId: unknown): FieldError[] {
  if (!isId(turnId)) return [{ path: '', message: ID_RULE }];
  return isReservedTurnId(turnId) ? [{ path: '', message: 'is an id of child turns and their reports' }] : [];
}

export class PostMessageDto {
  @ApiPropertyOptional({
    allOf: [ref('Id')],
    description: 'Chosen by the caller, to stop or to send again; else by the server',
  })
  @MayBeLeftOut()
  @Checked(turnIdFaults)
  turnId?: Id;

  @ApiProperty({ allOf: [ref('Content')] })
  @Checked(contentFaults)
  content!: Content;

  @ApiPropertyOptional({
    enum: SERVED_MODES,
    default: 'enqueue',
    description:
      '`steer`: queued like `enqueue` in this version; later a running turn takes it in. `reject`: refused as ' +
      '`session_busy` while a turn of the session runs or waits. `interrupt` is refused until turns can be stopped.',
  })
  @MayBeLeftOut()
  @Checked(modeFaults)
  mode?: Mode;

  @ApiPropertyOptional({ allOf: [ref('Meta')] })
  @MayBeLeftOut()
  @Checked(metadataFaults)
  metadata?: Meta;
}
