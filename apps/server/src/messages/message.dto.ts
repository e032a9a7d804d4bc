import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { IsIn } from 'class-validator';
import { type Content, type FieldError, type Id, isId, type Meta, type Mode, MODES } from '#protocol';
import { isReservedTurnId } from '#family';
import { Checked, ID_RULE, MayBeLeftOut } from '../http/field.decorators.js';
import { metadataFaults } from '../http/metadata.check.js';
import { ref } from '../openapi/schema-shorthand.js';
import { contentFaults } from './content.check.js';

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
    enum: MODES,
    default: 'enqueue',
    description:
      '`steer`: the turn that runs takes the message in at its next safe point; when it ends first, the message runs by ' +
      'itself. `interrupt`: stops the turn that runs, and waits in line. `reject`: refused as `session_busy` while a turn ' +
      'of the session runs or waits.',
  })
  @MayBeLeftOut()
  @IsIn(MODES, { message: `must be one of: ${MODES.join(', ')}` })
  mode?: Mode;

  @ApiPropertyOptional({ allOf: [ref('Meta')] })
  @MayBeLeftOut()
  @Checked(metadataFaults)
  metadata?: Meta;
}

export class EditMessageDto {
  @ApiProperty({ allOf: [ref('Content')] })
  @Checked(contentFaults)
  content!: Content;
}
